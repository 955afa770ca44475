"""What `plan --explain` says of the sample under six combinations of policies, kept in tests/golden_explain.

After a change that is meant, `SCHEMEGEN_GOLDEN=write pytest tests/test_explain_golden.py` writes the texts again, and
the difference is what to look at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import schemegen
from schemegen.cli import explained
from schemegen.planner import Plan

SAMPLE = "sample:qwen3.6-moe"
FOLDER = Path(__file__).parent / "golden_explain"
#: A kind of tensor from every part, and from every corner that a policy speaks of.
GLOBS = (
    "*.experts.gate_up_proj",
    "*.shared_expert.up_proj.weight",
    "*.mlp.gate.weight",
    "*.self_attn.q_proj.weight",
    "*.linear_attn.in_proj_[az].weight",
    "lm_head.weight",
    "mtp.fc.weight",
    "model.visual.blocks.*.mlp.linear_fc1.*",
)


@dataclass(frozen=True)
class Case:
    """A scheme, policies in front of it, and a glob that asks for something special of it."""

    name: str
    scheme: str
    policies: tuple[str, ...]
    glob: str


CASES = (
    Case("kimi-k2-int4", "kimi-k2-int4", (), "mtp.layers.0.mlp.experts.5.down_proj.weight_packed"),
    Case("kimi-k2-int4+keep-mtp", "kimi-k2-int4", ("keep-mtp",), "mtp.*norm*"),
    Case("int4-int8-mix+keep-linear-attention", "int4-int8-mix", ("keep-linear-attention",), "*.linear_attn.out_*"),
    Case(
        "fp8-dynamic+keep-attention+keep-shared-expert",
        "fp8-dynamic",
        ("keep-attention", "keep-shared-expert"),
        "*.experts.7.*.weight_scale",
    ),
    Case("w4a16-g128+keep-first-last", "w4a16-g128", ("keep-first-last",), "*.layers.[03].*.down_proj*"),
    Case("mixed-list", str(FOLDER / "mixed-list.yaml"), (), "*.o*_proj.weight"),
)

each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def plan(case: Case) -> Plan:
    return schemegen.plan(case.scheme, SAMPLE, policies=case.policies)


def told(case: Case) -> Iterator[str]:
    """A section for each glob: how it is asked for, and what is said."""
    made = plan(case)
    command = " ".join(["schemegen plan", case.name.split("+")[0], SAMPLE, *(f"--policy {p}" for p in case.policies)])
    for glob in (*GLOBS, case.glob):
        yield from (f"$ {command} --explain '{glob}'", *explained.lines(schemegen.explain(made, glob), made.files), "")


@each_case
def test_what_is_said_is_the_golden_text(case: Case) -> None:
    path = FOLDER / f"{case.name}.txt"
    text = "\n".join(told(case))
    if os.environ.get("SCHEMEGEN_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@each_case
def test_the_globs_ask_for_every_part_and_for_all_that_is_quantized(case: Case) -> None:
    made = plan(case)
    asked = [explanation.tensor for glob in (*GLOBS, case.glob) for explanation in schemegen.explain(made, glob)]
    assert {tensor.part for tensor in asked} == {tensor.part for tensor in made.tensors}
    assert {(tensor.role, tensor.rule, tensor.format) for tensor in made.tensors if tensor.format} <= {
        (tensor.role, tensor.rule, tensor.format) for tensor in asked
    }


def test_there_is_a_text_for_every_case_and_no_other() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {case.name for case in CASES}
