"""`plan`: the table adds up, JSON is the plan's own, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemegen import api
from schemegen.cli import figures
from schemegen.planner import Plan

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SAMPLE = "sample:qwen3.6-moe"
PLAN = ("plan", "kimi-k2-int4", SAMPLE)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return api.plan("kimi-k2-int4", SAMPLE)


def table(out: str) -> list[list[str]]:
    """The rows between the two empty lines, cut where two spaces stand."""
    _, rows, _ = out.split("\n\n")
    return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows.splitlines()[1:]]


def test_json_is_the_plan(cli: Cli, plan: Plan) -> None:
    done = cli(*PLAN, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.out == plan.to_json() + "\n"


def test_every_part_and_role_has_its_row(cli: Cli, plan: Plan) -> None:
    rows = table(cli(*PLAN).out)
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (row.part, row.role, row.format or "kept") for row in plan.totals.by_role
    ]
    assert sum(int(row[3].replace(",", "")) for row in rows) == plan.totals.tensors_in
    assert sum(int(row[4].replace(",", "")) for row in rows) == plan.totals.tensors_out


def test_what_decides_stands_beside_it(cli: Cli) -> None:
    decided = {(row[0], row[1]): row[-1] for row in table(cli(*PLAN, "--policy", "keep-mtp").out)}
    assert decided["text", "routed_expert"] == "experts-only[0]"
    assert decided["mtp", "routed_expert"] == "keep-mtp[0]"
    assert decided["text", "norm"] == "no rule"


def test_bits_a_weight(cli: Cli, plan: Plan) -> None:
    bits = {(row[0], row[1]): row[8] for row in table(cli(*PLAN).out)}
    experts = next(row for row in plan.totals.by_role if row.format)
    assert bits[experts.part, experts.role] == f"{8 * experts.bytes_out / experts.parameters:.2f}"
    assert bits["text", "embedding"] == "16.00"


def test_head_and_totals(cli: Cli, plan: Plan) -> None:
    out = cli(*PLAN).out
    totals = plan.totals
    assert f"model         {SAMPLE}\n" in out
    assert f"tensors  {totals.tensors_in} in, {totals.tensors_out} out\n" in out
    assert f"size     {figures.change(totals.bytes_in, totals.bytes_out)}\n" in out


def test_formats_are_told_in_a_few_words_and_so_is_who_serves_them(cli: Cli) -> None:
    out = cli(*PLAN).out
    assert "formats       int4: INT4 g32, pack-quantized\n" in out
    assert "served by     vllm: Marlin" in out
    assert "\n              transformers: " in out


def test_notes_are_told(cli: Cli, tmp_path: Path) -> None:
    policy = tmp_path / "idle.yaml"
    policy.write_text("schema_version: 1\nname: idle\nsummary: none\nrules:\n- {use: keep, part: audio}\n")
    assert "note     rule idle[0] decides no tensor of this model\n" in cli(*PLAN, "--policy", str(policy)).out


def test_nothing_is_written(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli(*PLAN).code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_there(cli: Cli) -> None:
    done = cli("plan", "kimi-k2-int4", "no such folder")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert "no such folder" in done.err
