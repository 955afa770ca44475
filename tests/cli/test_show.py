"""`show`: what it prints of a scheme or policy is a file that says the same; `--from`: a quantized model's scheme."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import schemegen
from schemegen.architectures.base import Part, Role
from schemegen.catalog import load_catalog
from schemegen.cli import show
from schemegen.loader import load_policy, load_scheme
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Format, Quantization, Scheme

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Start

CATALOG = load_catalog()
SCHEMES = [name for name in CATALOG.schemes.names() if CATALOG.schemes.origin(name) == "schemegen"]
POLICIES = [name for name in CATALOG.policies.names() if CATALOG.policies.origin(name) == "schemegen"]
MIXED = """\
schema_version: 1
name: mixed
summary: 'größer: every field there is'
formats:
  int4: {num_bits: 4, type: int, strategy: group, group_size: 32, symmetric: true}
  fp8:
    weights: {num_bits: 8, type: float, strategy: block, block_structure: [128, 128]}
    input_activations: {num_bits: 8, type: float, strategy: group, group_size: 128, dynamic: true}
    storage: float-quantized
policy:
- experts-only
- {use: fp8, role: [attention, mlp], part: text, layers: '0-2,-1', projection: [q, k]}
- {use: keep, name: 're:.*odd"name: #1'}
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed scheme.yaml"
    path.write_text(MIXED, encoding="utf-8")
    return path


def reread(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "shown.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_is_read_back_equal(cli: Cli, tmp_path: Path, name: str) -> None:
    done = cli("show", name)
    assert (done.code, done.err) == (0, "")
    assert load_scheme(reread(tmp_path, done.out)) == CATALOG.schemes.get(name)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_read_back_equal(cli: Cli, tmp_path: Path, name: str) -> None:
    done = cli("show", name)
    assert (done.code, done.err) == (0, "")
    assert load_policy(reread(tmp_path, done.out)) == CATALOG.policies.get(name)


def test_a_scheme_file_says_what_its_author_wrote_and_no_more(cli: Cli, mixed: Path) -> None:
    done = cli("show", str(mixed))
    assert done.out.startswith(f"# scheme from {mixed}\n")
    assert yaml.safe_load(done.out) == yaml.safe_load(MIXED)
    assert "größer" in done.out
    assert "  int4: {num_bits: 4, type: int, strategy: group, group_size: 32, symmetric: true}\n" in done.out


def test_a_scheme_file_survives_an_ascii_stdout(start: Start, mixed: Path, tmp_path: Path) -> None:
    out, err = start(f"main(['show', {str(mixed)!r}])", env={"PYTHONIOENCODING": "ascii"}).communicate(timeout=60)
    assert err == b""
    assert load_scheme(reread(tmp_path, out.decode("ascii"))) == load_scheme(mixed)


def test_a_scheme_made_in_python_is_read_back_equal(cli: Cli, tmp_path: Path) -> None:
    weights = Quantization(strategy="channel")
    rules = (Rule(use="default", role=(Role.MLP, Role.ATTENTION), part=Part.TEXT), Rule(use="keep"))
    made = Scheme(
        schema_version=1, name="made", summary="made", formats={"int8": Format(weights=weights)}, policy=rules
    )
    text = show._yaml(show._scheme(made))
    assert load_scheme(reread(tmp_path, text)) == made


def test_a_policy_file_is_known_as_one(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("schema_version: 1\nname: mine\nsummary: mine\nrules:\n- {use: keep, part: mtp}\n")
    done = cli("show", str(path))
    assert done.out.startswith(f"# policy from {path}\n")
    assert load_policy(reread(tmp_path, done.out)) == load_policy(path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("schema_version: 1\nname: A\nsummary: s\nrules:\n- {use: keep}\n", "2: name"),
        ("schema_version: 1\nname: a\nsummary: s\nformats: {}\npolicy: p\n", "4: formats"),
    ],
    ids=["policy", "scheme"],
)
def test_a_faulty_file_is_told_as_what_it_comes_nearer_to(cli: Cli, tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "faulty.yaml"
    path.write_text(text)
    done = cli("show", str(path))
    assert done.code == 1
    assert done.err.startswith(f"error: {path}:{fault}: ")
    assert done.err.count("\n") == 1


def test_an_architecture_names_every_pattern_with_its_role(cli: Cli) -> None:
    shown = yaml.safe_load(cli("show", "qwen3_5_moe").out)
    architecture = CATALOG.architectures.get("qwen3_5_moe")
    assert shown["model_types"] == list(architecture.model_types)
    assert [(row["pattern"], row["role"], row["part"]) for row in shown["tensors"]] == [
        (rule.pattern, rule.role, rule.part) for rule in architecture.rules
    ]
    assert "gate, up" in {row.get("stack_of") for row in shown["tensors"]}


def test_a_backend(cli: Cli) -> None:
    backend = CATALOG.backends.get("native-rtn")
    assert yaml.safe_load(cli("show", "native-rtn").out) == {
        "name": "native-rtn",
        "summary": backend.summary,
        "method": "rtn",
        "options": [],
        "built_on": list(backend.versions),
        "devices": ["cpu", "cuda"],
    }


def test_json_holds_kind_origin_and_content(cli: Cli) -> None:
    found = json.loads(cli("show", "keep-mtp", "--json").out)
    assert (found["kind"], found["from"]) == ("policy", "schemegen")
    policy = json.dumps(found["content"])
    assert Policy.model_validate_json(policy) == CATALOG.policies.get("keep-mtp")


def test_an_unknown_name_suggests_over_all_kinds(cli: Cli) -> None:
    done = cli("show", "keep-mtpp")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: unknown name 'keep-mtpp': did you mean keep-mtp")


def test_a_name_like_no_other_refers_to_the_lists(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = cli("show", "zzzzzz").err
    assert re.match(r"error: unknown name 'zzzzzz': schemegen list \[schemes\|.*\] shows the \d+ known[;\n]", told)
    (tmp_path / "zzzzzz.yml").write_text(MIXED, encoding="utf-8")
    assert "; there is a file zzzzzz.yml: give it with its suffix" in cli("show", "zzzzzz").err


def test_a_faulty_file_is_told_as_the_kind_that_it_is(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("schema_version: 1\nname: p\nsummary: s\nrules: [{role: nobody, use: keep}]\n", encoding="utf-8")
    done = cli("show", str(path))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert f"{path}:4: rules.0.role: 'nobody' is no role" in done.err


def test_kinds_that_share_a_name_are_told_apart(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_catalog()
    twin = Policy(schema_version=1, name="kimi-k2-int4", summary="a twin", rules=(Rule(use="keep"),))
    catalog.policies.add(twin, origin="acme 1.0")
    monkeypatch.setattr("schemegen.catalog.load_catalog", lambda: catalog)
    done = cli("show", "kimi-k2-int4")
    assert done.out.startswith("# scheme from schemegen\n")
    assert done.err == "note: there is also policy kimi-k2-int4; see it with show policy:kimi-k2-int4\n"
    assert cli("show", "policy:kimi-k2-int4").out.startswith("# policy from acme 1.0\n")
    assert cli("show", "scheme:keep-mtp").code == 1


def test_a_quantized_models_scheme_is_a_file_that_makes_it_again(
    cli: Cli, finished: Path, sample_folder: Path, tmp_path: Path
) -> None:
    done = cli("show", "--from", str(finished))
    assert (done.code, done.err) == (0, "")
    path = reread(tmp_path, done.out)
    assert load_scheme(path) == schemegen.describe(finished).scheme
    made = schemegen.apply(path, sample_folder, tmp_path / "again").path
    for name in ("config.json", "model.safetensors.index.json"):
        assert (made / name).read_bytes() == (finished / name).read_bytes()
    for shard in finished.glob("*.safetensors"):
        assert (made / shard.name).read_bytes() == shard.read_bytes()


def test_a_quantized_models_scheme_comes_with_what_no_config_tells(cli: Cli, finished: Path) -> None:
    lines = cli("show", "--from", str(finished)).out.splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[: len(comments)] == comments
    assert comments[:2] == [
        "# scheme from the config of out",
        "# schemegen.json beside this config holds the scheme itself; what stands here is told from the config",
    ]
    assert lines[len(comments) :] == [
        "schema_version: 1",
        "name: out-described",
        "summary: INT4 g32, as the config of out describes it",
        "formats:",
        "  int4: {num_bits: 4, type: int, strategy: group, group_size: 32, symmetric: true}",
        "policy: experts-only",
    ]


def test_a_quantized_models_scheme_as_json(cli: Cli, finished: Path) -> None:
    found = json.loads(cli("show", "--from", str(finished), "--json").out)
    assert (found["kind"], found["from"], found["content"]["policy"]) == ("scheme", "out", "experts-only")
    assert found["remarks"][0].startswith("schemegen.json ")
    assert Scheme.model_validate_json(json.dumps(found["content"])) == schemegen.describe(finished).scheme


def test_names_from_elsewhere_stay_in_their_comment(
    cli: Cli, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a\nformats: b"
    folder.symlink_to(finished)
    done = cli("show", "--from", str(folder))
    assert done.code == 0
    assert load_scheme(reread(tmp_path, done.out)).policy == ("experts-only",)


@pytest.mark.parametrize(
    "args",
    [(), ("kimi-k2-int4", "--from", "model"), ("kimi-k2-int4", "--revision", "main"), ("--from", ""), ("",)],
    ids=["neither", "both", "revision", "empty", "no-name"],
)
def test_show_takes_a_name_or_a_model(cli: Cli, args: tuple[str, ...]) -> None:
    done = cli("show", *args)
    assert (done.code, done.out) == (2, "")
    assert "Usage: schemegen show" in done.err


@pytest.mark.parametrize(
    ("model", "told"), [("sample:qwen3.6-moe", "is not quantized"), ("sample:x", "unknown sample")]
)
def test_a_model_that_has_no_scheme_is_one_error(cli: Cli, model: str, told: str) -> None:
    done = cli("show", "--from", model)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_a_truncated_shard_is_one_error(cli: Cli, finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "cut")
    shard = next(folder.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:1000])
    done = cli("show", "--from", str(folder))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert shard.name in done.err
