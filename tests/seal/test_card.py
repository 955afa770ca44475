"""The model card: it says what the plan did, and holds nothing that somebody else may have put into a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from schemegen.checkpoint.model import Unindexed
from schemegen.seal import Sealing, default_name
from schemegen.seal.card import card

MakeSealing = Callable[..., Sealing]


@pytest.fixture
def make_card(sample_folder: Path, finished: Path, make_sealing: MakeSealing) -> Callable[..., str]:
    """A factory: policies and changed fields → the card."""

    def make(*policies: str, **changes: object) -> str:
        sealing = make_sealing(sample_folder, finished, *policies, **changes)
        return card(
            sealing.plan, sealing.checkpoint, sealing.backend, sealing.versions, sealing.report, sealing.command
        )

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
    assert "7.77 MB (7.41 MiB) → **4.95 MB (4.72 MiB)** of tensors, 1.57 times smaller" in text
    assert "| mtp | routed expert | quantized to int4 | 2 | 72 | 393,216 | 786,432 | 221,568 |" in text
    assert "| text | lm head | kept | 1 | 1 | 81,920 | 163,840 | 163,840 |" in text


def test_it_tells_how_to_serve_and_how_to_make_it_again(make_card: Callable[..., str]) -> None:
    text = make_card(model_id="org/Model-1")
    assert text.count("Model-1-kimi-k2-int4") == 3
    assert "vllm serve Model-1-kimi-k2-int4 \\\n" in text
    assert (
        "\nschemegen apply kimi-k2-int4 qwen3.6-moe\nschemegen verify Model-1-kimi-k2-int4 --against org/Model-1\n"
        in text
    )
    assert "# add --language-model-only" in text
    assert '"method": "mtp"' in text
    assert "[org/Model-1](https://huggingface.co/org/Model-1)" in text


def test_front_matter_names_a_hub_model_and_nothing_else(make_card: Callable[..., str]) -> None:
    fields = yaml.safe_load(make_card(model_id="org/Model-1").split("---\n")[1])
    assert fields["base_model"] == "org/Model-1"
    assert fields["base_model_relation"] == "quantized"
    assert fields["license"] == "apache-2.0"
    assert "base_model" not in yaml.safe_load(make_card(model_id="sample:qwen3.6-moe").split("---\n")[1])
    assert make_card(model_id="folder", side_files=()).startswith("# folder-kimi-k2-int4\n")


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
    assert "house.yaml is not part of schemegen" in text
    assert "is not part of schemegen" not in make_card()


def test_a_folders_name_cannot_write_the_card(make_card: Callable[..., str]) -> None:
    text = make_card(model_id="x`\n# y | <b> $(reboot)", options=("x`\n# y | <b> $(reboot)",))
    assert text.count("\n# ") == 3
    assert "<b>" not in text
    assert "'x # y b $(reboot)'" in re.sub(" +", " ", text)
