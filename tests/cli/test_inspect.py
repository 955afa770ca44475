"""`inspect`: every tensor is counted once, and what is odd about a model is said."""

from __future__ import annotations

import json
from dataclasses import replace
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
