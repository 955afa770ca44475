"""`plan`: the table adds up, JSON is the plan's own, and nothing is written."""

from __future__ import annotations

import json
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


def lines(out: str) -> list[list[str]]:
    """The rows between the two empty lines, cut where two spaces stand: the head, the table, a rule and the total."""
    _, rows, _ = out.split("\n\n")
    return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows.splitlines()]


def table(out: str) -> list[list[str]]:
    """The rows of parts and roles."""
    return lines(out)[1:-2]


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
    assert decided["text", "norm"] == "protected"
    assert decided["text", "attention"] == "no rule"


def test_bits_a_weight(cli: Cli, plan: Plan) -> None:
    bits = {(row[0], row[1]): row[8] for row in table(cli(*PLAN).out)}
    experts = next(row for row in plan.totals.by_role if row.format)
    assert bits[experts.part, experts.role] == f"{8 * experts.bytes_out / experts.parameters:.2f}"
    assert bits["text", "embedding"] == "16.00"


def test_the_total_is_ruled_off_and_adds_up(cli: Cli, plan: Plan) -> None:
    *_, rule, total = lines(cli(*PLAN).out)
    totals, rows = plan.totals, plan.totals.by_role
    counts = [figures.count(n) for n in (totals.tensors_in, totals.tensors_out, totals.parameters)]
    sizes = [figures.size(totals.bytes_in), figures.size(totals.bytes_out)]
    assert total == ["total", *counts, *sizes, f"{8 * totals.bytes_out / totals.parameters:.2f}"]
    assert {*"".join(rule)} == {"-"}
    assert len(rule) == len(total) - 1
    assert totals.parameters == sum(row.parameters for row in rows)


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
    assert "note     rule idle[0] matches no tensor of this model\n" in cli(*PLAN, "--policy", str(policy)).out


EXPERTS = "*.language_model.*.experts.*"
TOLD = """\
model.language_model.layers.{0-3}.mlp.experts.down_proj  4 tensors
  role     routed_expert, text, layers 0-3, projection down
  source   BF16 [8, 384, 128]
  rule     experts-only[0] {role: routed_expert, use: default} -> int4
  becomes  int4: INT4 g32, pack-quantized
  stored   ….experts.{0-7}.down_proj.weight_packed  I32   [384, 16]  32 times
           ….experts.{0-7}.down_proj.weight_scale   BF16  [384, 4]   32 times
           ….experts.{0-7}.down_proj.weight_shape   I64   [2]        32 times
  shard    2, from model-00001-of-00003.safetensors to model-00002-of-00003.safetensors
  size     3.15 MB to 885 kB, 3.55 times smaller, 4.50 bits a weight
"""


def test_explain_tells_many_layers_and_experts_in_one_block(cli: Cli) -> None:
    done = cli(*PLAN, "--explain", EXPERTS)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(TOLD)
    assert done.out.endswith("\n8 tensors of 2 kinds, 9.44 MB to 2.66 MB, 3.55 times smaller, 4.50 bits a weight\n")


def test_explain_of_a_name_is_one_block_without_a_sum(cli: Cli) -> None:
    assert cli(*PLAN, "--explain", "lm_head.weight").out == (
        "lm_head.weight\n"
        "  role     lm_head, text\n"
        "  source   BF16 [320, 384]\n"
        "  rule     protected: only a rule that names role lm_head reaches it\n"
        "  becomes  kept as it is\n"
        "  shard    model-00003-of-00003.safetensors\n"
        "  size     246 kB, 16.00 bits a weight\n"
    )


def test_explain_in_json_is_the_tensors_of_the_plan_with_reasons(cli: Cli, plan: Plan) -> None:
    told = json.loads(cli(*PLAN, "--explain", "*.weight_scale", "--json").out)
    assert told["explain"] == "*.weight_scale"
    assert [row["name"] for row in told["tensors"]] == [tensor.name for tensor in plan.tensors if tensor.format]
    assert {row["reason"].partition(" ")[0] for row in told["tensors"]} == {"experts-only[0]"}


def test_explain_that_matches_nothing(cli: Cli) -> None:
    done = cli(*PLAN, "--explain", "lm_heads.weight")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: unknown tensor 'lm_heads.weight': did you mean lm_head.weight")
    assert cli(*PLAN, "--explain", "").code == 2


def test_nothing_is_written(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli(*PLAN).code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_there(cli: Cli) -> None:
    done = cli("plan", "kimi-k2-int4", "no such folder")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert "no such folder" in done.err
