"""`inspect`: every tensor is counted once, and what is odd about a model is said."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemegen import api

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SAMPLE = "sample:qwen3.6-moe"


def test_json_holds_all_that_the_library_tells(cli: Cli) -> None:
    found = api.inspect(SAMPLE)
    told = json.loads(cli("inspect", SAMPLE, "--json").out)
    assert told["model_id"] == SAMPLE
    assert told["architecture"] == "qwen3_5_moe"
    assert sum(row["tensors"] for row in told["rows"]) == told["tensors"] == found.tensors
    assert sum(row["nbytes"] for row in told["rows"]) == told["nbytes"] == found.nbytes
    assert told["side_files"] == list(found.side_files)


def test_the_table_has_a_row_for_each_of_the_librarys(cli: Cli) -> None:
    found = api.inspect(SAMPLE)
    done = cli("inspect", SAMPLE)
    head, table, tail = done.out.split("\n\n")
    assert (done.code, done.err) == (0, "")
    assert f"tensors       {found.tensors} in {found.shards} shards" in head
    assert len(table.splitlines()) == len(found.rows) + 1
    assert "text    routed_expert       BF16" in table
    assert "fused" in table
    assert [name for name in found.side_files if name not in tail] == []


def test_a_quantized_model_and_files_outside_the_index(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(
        api.inspect(SAMPLE), rows=(), quantization="fp8 by config.json", unindexed=("old.bin",), revision="abc"
    )
    monkeypatch.setattr("schemegen.api.inspect", lambda model, revision: found)
    out = cli("inspect", SAMPLE).out
    assert f"model         {SAMPLE} at abc\n" in out
    assert "quantized     fp8 by config.json\n" in out
    assert "not indexed  old.bin\n" in out
    assert "routed_expert" not in out
    assert "parameters" not in out


def test_names_are_shown_in_short_with_what_the_architecture_knows(cli: Cli) -> None:
    lines = [line.split() for line in cli("inspect", SAMPLE, "--names").out.splitlines()]
    assert lines[0] == ["name", "tensors", "dtype", "shape", "part", "role"]
    stack = "model.language_model.layers.{0-3}.mlp.experts.gate_up_proj"
    (found,) = [line for line in lines if line[0] == stack]
    assert (found[1:3], found[-2:]) == (["4", "BF16"], ["text", "routed_expert"])
    assert sum(int(line[1].replace(",", "")) for line in lines[1:]) == api.inspect(SAMPLE).tensors


def test_names_of_a_family_that_nobody_knows(cli: Cli, sample_folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(sample_folder, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "acme_moe"}))
    told = cli("inspect", str(model), "--names")
    assert (told.code, told.err) == (0, "")
    assert {line.split()[-1] for line in told.out.splitlines()[1:]} == {"unknown"}
    rows = json.loads(cli("inspect", str(model), "--names", "--json").out)
    assert len(rows) == api.inspect(SAMPLE).tensors
    assert {(row["part"], row["role"]) for row in rows} == {(None, None)}
