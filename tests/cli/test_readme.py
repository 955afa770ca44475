"""The README: its commands parse, its make targets exist, its scheme loads and plans, its Python runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from schemegen import api
from schemegen.cli.verbs import VERBS, schemegen
from schemegen.formats import rounding_fault, storage_of
from schemegen.loader import load_scheme
from schemegen.scheme import Format

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line.removeprefix("$ ") for block in blocks("sh") + blocks("text") for line in block.splitlines()]
CALLS = [line for line in COMMANDS if line.startswith("schemegen ")]
TARGETS = {
    word for line in [*COMMANDS, *re.findall(r"`(make \w+)`", README)] for word in re.findall(r"^make (\w+)$", line)
}


def test_there_is_something_to_check() -> None:
    assert len(CALLS) >= 5
    assert {"demo", "test", "lint", "bench"} <= TARGETS


@pytest.mark.parametrize("line", CALLS)
def test_commands_parse(line: str) -> None:
    group = schemegen.make_context("schemegen", shlex.split(line)[1:])
    name, command, rest = schemegen.resolve_command(group, shlex.split(line)[1:])
    assert command is not None
    assert command.make_context(name, rest, parent=group).params


def test_every_verb_is_told() -> None:
    assert [verb for verb in VERBS if f"| `schemegen {verb}" not in README] == []


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in TARGETS if f"\n{target}:" not in makefile] == []


def test_the_scheme_loads_and_plans(tmp_path: Path) -> None:
    (block,) = blocks("yaml")
    path = tmp_path / "scheme.yaml"
    path.write_text(block, encoding="utf-8")
    plan = api.plan(path, "sample:qwen3.6-moe")
    assert plan.scheme == load_scheme(path)
    quantized = {(tensor.part, tensor.layer) for tensor in plan.tensors if tensor.format}
    assert quantized
    assert all(part == "text" and (layer or 0) > 1 for part, layer in quantized)
    assert set(plan.formats_used) == {"int4", "int8"}


TOKEN = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
FORMATS = re.findall(r"^\| `([a-z0-9-]+)` \| `(\{num_bits.*?\})`( and `input_activations`)? \|", README, re.MULTILINE)


def test_every_storage_is_told() -> None:
    assert [storage for storage, _, _ in FORMATS] == [
        "pack-quantized",
        "int-quantized",
        "float-quantized",
        "nvfp4-pack-quantized",
        "mxfp4-pack-quantized",
        "mxfp8-quantized",
    ]


@pytest.mark.parametrize(("storage", "weights", "activations"), FORMATS)
def test_each_line_of_a_format_is_one_of_that_storage(storage: str, weights: str, activations: str) -> None:
    told = {"weights": yaml.safe_load(weights)} | ({"input_activations": TOKEN} if activations else {})
    format = Format.model_validate(told)
    assert (storage_of(format), rounding_fault(format)) == (storage, None)


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert "vllm serve out\n" in capsys.readouterr().out
    assert (tmp_path / "out" / "schemegen.json").is_file()


def test_files_and_folders_that_are_named_exist() -> None:
    named = set(re.findall(r"`(schemegen/[\w/.]+|schemes/[\w/.]*)`", README)) | set(
        re.findall(r"\]\(([\w.]+)\)", README)
    )
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
