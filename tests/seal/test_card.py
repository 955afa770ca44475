"""The model card: it says what the plan did, and holds nothing that somebody else may have put into a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from schemegen import Scheme
from schemegen.checkpoint.model import SideFile, Unindexed
from schemegen.engines import declare
from schemegen.engines.serving import SERVERS, VERSIONS
from schemegen.scheme import Method
from schemegen.seal import Sealing, argument, default_name
from schemegen.seal.card import _method, card

MakeSealing = Callable[..., Sealing]


@pytest.fixture
def make_card(sample_folder: Path, finished: Path, make_sealing: MakeSealing) -> Callable[..., str]:
    """A factory: policies and changed fields → the card."""

    def make(*policies: str, **changes: object) -> str:
        sealing = make_sealing(sample_folder, finished, *policies, **changes)
        return card(sealing, declare(sealing.plan, sealing.architecture)["ignore"])

    return make


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("Qwen/Qwen3.6-35B-A3B", "Qwen3.6-35B-A3B-kimi-k2-int4"),
        ("sample:qwen3.6-moe", "qwen3.6-moe-kimi-k2-int4"),
        ("a folder's name", "a-folder-s-name-kimi-k2-int4"),
        ("..", "model-kimi-k2-int4"),
        ("--help", "help-kimi-k2-int4"),
    ],
)
def test_an_output_is_called_after_model_and_scheme(model_id: str, name: str) -> None:
    assert default_name(model_id, "kimi-k2-int4") == name


def test_it_has_the_seeds_table_and_the_plans_figures(make_card: Callable[..., str]) -> None:
    text = make_card(model_id="org/Model-1")
    rows = dict(re.findall(r"^\| ([\w ]+) \| (.+) \|$", text, re.MULTILINE))
    assert rows["Method"] == "RTN (round-to-nearest, data-free); backend `a-backend`, numpy 2.0"
    assert rows["Precision"] == "W4A16 (4-bit integer weights, 16-bit activations)"
    assert rows["Strategy"] == "group, group_size = 32"
    assert rows["Symmetric"] == "true"
    assert rows["Format"] == "pack-quantized (compressed-tensors)"
    assert rows["Quantized modules"] == (
        "routed expert of text and mtp (`*.mlp.experts.*.{gate_proj,up_proj,down_proj}`)"
    )
    assert rows["Left in BF16"].split(", ") == [
        "shared expert",
        "shared expert gate",
        "router",
        "attention",
        "linear attention",
        "mixer gate",
        "state",
        "norm",
        "embedding",
        "lm head",
        "fusion",
        "all of vision",
    ]
    assert "18.24 MB (17.40 MiB) → **9.77 MB (9.31 MiB)** of tensors, 1.87 times smaller" in text
    assert "| mtp | routed expert | quantized to int4 | 2 | 72 | 1,179,648 | 2,359,296 | 663,936 |" in text
    assert "| text | lm head | kept | 1 | 1 | 122,880 | 245,760 | 245,760 |" in text


MIX = {
    "schema_version": 1,
    "name": "mix",
    "summary": "a mix",
    "served_by": {"vllm": "tried | on a CPU", "acme": "kernels of its own"},
    "formats": {
        "int4": {"num_bits": 4, "group_size": 32, "observer": "signed_mse"},
        "int8": {
            "weights": {"num_bits": 8, "strategy": "channel"},
            "input_activations": {"num_bits": 8, "strategy": "token", "dynamic": True, "observer": None},
        },
    },
    "policy": ["keep-mtp", {"role": "attention", "part": "text", "use": "int8"}, {"role": "*", "use": "int4"}],
}


def test_it_says_what_each_format_is_and_who_serves_the_scheme(make_card: Callable[..., str]) -> None:
    text = make_card(scheme=Scheme.model_validate(MIX))
    rows = dict(re.findall(r"^\| ([\w ]+) \| (.+) \|$", text, re.MULTILINE))
    assert "\nINT4 and INT8 quantization of `qwen3.6-moe`" in text
    assert rows["Precision of int4"].startswith("W4A16 ")
    assert rows["Weights of int4"] == "INT4, a scale for every 32 weights of a row, symmetric"
    assert rows["Activations of int4"] == "not quantized"
    assert rows["Scales of int4"].startswith("signed\\_mse: a search over scales of both signs")
    assert rows["Format of int4"] == "pack-quantized (compressed-tensors)"
    assert rows["Precision of int8"].startswith("W8A8 ")
    assert rows["Activations of int8"] == "INT8, a scale for every token, found while serving"
    assert rows["Format of int8"] == "int-quantized (compressed-tensors)"
    assert rows["Quantized modules"].startswith("int4: routed expert of text; ")
    assert "; int8: attention of text (" in rows["Quantized modules"]
    assert "\n- vLLM: tried \\| on a CPU\n- acme: kernels of its own\n" in text
    assert "### vLLM\n" in text
    assert "### SGLang\n" not in text
    fields = yaml.safe_load(text.split("---\n")[1])
    assert {"int4", "int8"} < set(fields["tags"])


def test_a_methods_options_stand_beside_it() -> None:
    assert _method(Method.model_validate("rtn")) == "RTN (round-to-nearest, data-free)"
    assert _method(Method.model_validate({"name": "gptq", "dampening": 0.1, "order": "a|b"})) == (
        "gptq (dampening 0.1, order a\\|b)"
    )


def test_it_tells_how_to_serve_and_how_to_make_it_again(make_card: Callable[..., str]) -> None:
    text = make_card(model_id="org/Model-1")
    name = "Model-1-kimi-k2-int4"
    assert f"\nvllm serve {name} \\\n  --tensor-parallel-size 1 \\\n  --max-model-len 4096\n# to serve text" in text
    assert f"\npython -m sglang.launch_server --model-path {name} \\\n  --port 8000 \\\n" in text
    assert "#   --language-model-only\n" in text
    assert """#   --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'\n""" in text
    assert "#   --speculative-algorithm NEXTN " in text
    assert "\nFlags as vLLM " + " and SGLang ".join(VERSIONS[engine] for engine in SERVERS) + " spell them.\n" in text
    assert 'base_url="http://localhost:8000/v1"' in text
    assert f'model="{name}",' in text
    assert f"\nschemegen apply kimi-k2-int4 qwen3.6-moe\nschemegen verify {name} --against org/Model-1\n" in text
    assert "[org/Model-1](https://huggingface.co/org/Model-1)" in text


def test_the_commit_is_told_and_linked(make_card: Callable[..., str]) -> None:
    options = ("--revision", "0123456789abcdef")
    text = make_card(model_id="org/Model-1", revision="0123456789abcdef", options=options)
    link = "https://huggingface.co/org/Model-1/tree/0123456789abcdef"
    assert f", from revision [`0123456789ab`]({link}).\n" in text
    assert "\nschemegen apply kimi-k2-int4 qwen3.6-moe --revision 0123456789abcdef\n" in text


def test_a_copy_of_the_base_model_is_told(make_card: Callable[..., str]) -> None:
    text = make_card(model_id="mirror/Copy", told={"base_model": "org/Model-1"})
    assert "quantization of [org/Model-1](https://huggingface.co/org/Model-1), made by" in text
    assert ", from the weights of [mirror/Copy](https://huggingface.co/mirror/Copy).\n" in text
    assert yaml.safe_load(text.split("---\n")[1])["base_model"] == "org/Model-1"


def test_the_peers_script_is_there_where_it_is_known_to_agree(make_card: Callable[..., str]) -> None:
    told = {"same_bits_as": "llm-compressor"}
    assert "from llmcompressor import model_free_ptq\n" in make_card(told=told)
    assert "bit for bit, but stores the kept" in make_card("keep-mtp", told=told)
    assert "llmcompressor" not in make_card()


def test_front_matter_names_a_hub_model_and_nothing_else(make_card: Callable[..., str]) -> None:
    fields = yaml.safe_load(make_card(model_id="org/Model-1").split("---\n")[1])
    assert fields["base_model"] == "org/Model-1"
    assert fields["base_model_relation"] == "quantized"
    assert fields["license"] == "apache-2.0"
    assert fields["library_name"] == "transformers"
    assert fields["tags"] == ["schemegen-sample", "compressed-tensors", "int4", "vllm", "schemegen"]
    for model_id in ("sample:qwen3.6-moe", "folder", "a/b/c"):
        assert "base_model" not in yaml.safe_load(make_card(model_id=model_id).split("---\n")[1])


def test_without_a_card_of_the_base_model_nothing_is_inherited(make_card: Callable[..., str]) -> None:
    text = make_card(model_id="folder", side_files=())
    assert yaml.safe_load(text.split("---\n")[1]).keys() == {"tags"}
    assert "## License" not in text
    assert "README.base.md" not in text


@pytest.mark.parametrize("model_id", ["org/Model-1", "sample:qwen3.6-moe", "x`\n---\n# y"])
def test_the_hubs_client_reads_it(make_card: Callable[..., str], model_id: str) -> None:
    hub = pytest.importorskip("huggingface_hub")
    text = make_card(model_id=model_id)
    found = hub.ModelCard(text)
    assert found.data.to_dict() == yaml.safe_load(text.split("---\n")[1])
    assert found.data.base_model == ("org/Model-1" if model_id == "org/Model-1" else None)
    assert found.text.lstrip().startswith("# ")


@pytest.mark.parametrize(
    ("policies", "statement"),
    [
        ((), "the block is complete, 19 tensors; its routed expert tensors are quantized, the rest is kept as shipped"),
        (("keep-mtp",), "the whole block is kept as shipped, 19 tensors"),
    ],
)
def test_it_states_what_became_of_mtp(make_card: Callable[..., str], policies: tuple[str, ...], statement: str) -> None:
    text = make_card(*policies)
    assert f"MTP: {statement}." in text


def test_notes_and_what_was_left_out_are_told(make_card: Callable[..., str]) -> None:
    left = (Unindexed("model.gguf", 1, False), Unindexed("mtp.safetensors", 1, True))
    text = make_card(notes=("a note",), report=("a remark",), unindexed=left)
    assert "- a note\n- a remark\n- Left out, since the index does not name them: model.gguf, mtp.safetensors\n" in text
    assert "Notes:" not in make_card()


def test_it_says_how_to_make_the_output_again(make_card: Callable[..., str]) -> None:
    text = make_card(options=("--policy", "house.yaml"))
    assert "\nschemegen apply kimi-k2-int4 qwen3.6-moe --policy house.yaml\n" in text
    assert ".\nPut before its rules: policy `house.yaml`.\nReference: " in text
    assert "house.yaml is not part of schemegen; the `rules` in `schemegen.json` are in force with its.\n" in text
    assert "is not part of schemegen" not in make_card()


def test_a_folder_that_looks_like_an_option_is_named_as_a_folder(make_card: Callable[..., str]) -> None:
    assert "\nschemegen verify dash-kimi-k2-int4 --against ./-dash\n" in make_card(model_id="-dash")
    assert (argument("--help"), argument("a-b"), argument("/-a")) == ("./--help", "a-b", "/-a")


def structure(text: str) -> list[str]:
    """The kinds of blocks of a card's Markdown, in order, and the tags of its HTML."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    tokens = [
        child for token in markdown.parse(text.partition("\n---\n\n")[2]) for child in (token, *(token.children or []))
    ]
    assert not any(token.type == "html_inline" for token in tokens)
    html = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert html == ["<details><summary>What became of each role</summary>", "</details>"]
    return [token.type for token in tokens if token.nesting == 1 or token.type in ("fence", "hr")]


HOSTILE = "x`|*a*|<b>_c_</b>\n# y\n---\n```\n[d](javascript:e) $(reboot)"


def test_nothing_from_outside_can_write_the_card(make_card: Callable[..., str]) -> None:
    """Names, words of the command, remarks, versions: whatever they hold, the card's blocks are the same."""
    tame = make_card(model_id="x", options=("x",), notes=("n",), report=("r",), told={"versions": {"v": "1"}})
    wild = make_card(
        model_id=HOSTILE,
        options=(HOSTILE,),
        notes=(HOSTILE,),
        report=(HOSTILE,),
        told={"versions": {HOSTILE: HOSTILE}, "backend": HOSTILE},
        unindexed=(),
    )
    assert structure(wild) == structure(tame)


def test_a_schemes_words_cannot_write_the_card(make_card: Callable[..., str]) -> None:
    def worded(summary: str, reference: str) -> str:
        fields = {"schema_version": 1, "name": "mine", "policy": "experts-only"}
        formats = {"int4": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}
        scheme = Scheme.model_validate({**fields, "formats": formats, "summary": summary, "reference": reference})
        return make_card(scheme=scheme)

    hostile = HOSTILE.replace("\n", " ")
    assert structure(worded(hostile, hostile)) == structure(worded("x", "y"))
    assert "https://x.y/z" in worded("x", "https://x.y/z")


def test_a_base_models_license_cannot_write_the_card(make_card: Callable[..., str], tmp_path: Path) -> None:
    def licensed(name: str, link: str) -> str:
        front = yaml.safe_dump({"license": "other", "license_name": name, "license_link": link, "tags": [HOSTILE]})
        (tmp_path / "README.md").write_text(f"---\n{front}---\n")
        return make_card(root=tmp_path, side_files=(SideFile("README.md", 1),))

    tame = licensed("x", "https://x.y")
    assert "\n[x](https://x.y), inherited from the base model.\n" in tame
    assert structure(licensed(HOSTILE, "https://x.y")) == structure(tame)
    without_link = structure(licensed("x", ""))
    for link in ("https://x.y/)<b>", "https://x.y/) y", "javascript:e", HOSTILE):
        assert structure(licensed(HOSTILE, link)) == without_link


def test_a_lone_scheme_is_to_be_saved_and_a_plugin_to_be_installed(make_card: Callable[..., str]) -> None:
    command = ["schemegen", "apply", "t1-mix.yaml", "qwen3.6-moe"]
    plugins = {"architecture": "acme 1.0", "policy keep-x": "other 2", "scheme": "acme 1.0"}
    text = make_card(told={"command": command, "plugins": plugins})
    assert "\nNeeds the plugins acme 1.0 (architecture, scheme), other 2 (policy keep-x).\n" in text
    assert (
        "\n`t1-mix.yaml` is not part of schemegen: save the `scheme` that `schemegen.json` holds under that name"
        in text
    )
    assert "Needs the plugin acme 1.0 (scheme).\n" in make_card(told={"plugins": {"scheme": "acme 1.0"}})
    assert "Needs the plugin" not in make_card()
