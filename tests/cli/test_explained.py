"""What `plan --explain` says: what is alike in one block, in an order that does not depend on shards; odd names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

import schemegen
from schemegen.cli import explained
from schemegen.planner import Plan, PlannedTensor
from schemegen.planner.explanation import Explanation, explain

STORED = "….experts.{0-7}.{gate,up}_proj.weight_scale"


@cache
def plan() -> Plan:
    return schemegen.plan("kimi-k2-int4", "sample:qwen3.6-moe")


def lines(told: Sequence[Explanation]) -> list[str]:
    return list(explained.lines(told, plan().files))


def heads(told: Sequence[Explanation]) -> list[str]:
    """Pattern and count of every block."""
    return [line for line in lines(told) if line and not line.startswith(" ") and " kinds, " not in line]


def renamed(name: str, told: str) -> Explanation:
    """The explanation of a tensor, under another name."""
    (found,) = explain(plan(), name)
    outputs = tuple(output._replace(name=told) for output in found.tensor.outputs)
    return replace(found, tensor=replace(found.tensor, name=told, outputs=outputs))


def test_all_tensors_are_told_once_in_the_order_of_the_table() -> None:
    blocks = explained.blocks(explain(plan(), "*"))
    assert sorted(tensor.name for block in blocks for tensor in block.tensors) == sorted(
        tensor.name for tensor in plan().tensors
    )
    rows = [(row.part, row.role) for row in plan().totals.by_role]
    assert list(dict.fromkeys((block.tensors[0].part, block.tensors[0].role) for block in blocks)) == rows


def test_the_order_of_the_shards_changes_nothing() -> None:
    told = list(explain(plan(), "*"))
    shuffled = random.Random(0).sample(told, len(told))
    assert heads(shuffled) == heads(told)


def test_layers_are_told_as_rules_count_them() -> None:
    (block,) = explained.blocks(explain(plan(), "*.linear_attn.in_proj_[ab].weight"))
    assert block.pattern == "model.language_model.layers.{0-2}.linear_attn.in_proj_{a,b}.weight"
    assert "  role     mixer_gate, text, layers 0-2, projections a, b" in lines(block.told)


def test_layers_with_another_fate_have_a_block_of_their_own() -> None:
    told = [
        replace(explanation, reason="another") if explanation.tensor.layer == 1 else explanation
        for explanation in explain(plan(), "*.layers.*.mlp.gate.weight")
    ]
    assert heads(told) == [
        "model.language_model.layers.{0,2-3}.mlp.gate.weight  3 tensors",
        "model.language_model.layers.1.mlp.gate.weight",
        "mtp.layers.0.mlp.gate.weight",
    ]


def test_what_is_stored_is_told_in_short_and_counted() -> None:
    assert [line.split()[-4:] for line in lines(explain(plan(), "mtp.*.gate_up_proj")) if STORED in line] == [
        ["[128,", "12]", "16", "times"]
    ]


@pytest.mark.parametrize(
    ("name", "short"), [("a.b.weight", "….b.weight_packed"), ("head.weight", "head.weight_packed")]
)
def test_a_single_matrix_keeps_the_last_word_of_its_module(name: str, short: str) -> None:
    (found,) = explain(plan(), "model.language_model.layers.0.mlp.shared_expert.up_proj.weight")
    module = name.rpartition(".")[0]
    outputs = tuple(found.tensor.outputs[0]._replace(name=f"{module}.weight_{word}") for word in ("packed", "scale"))
    tensor = replace(found.tensor, name=name, format="int4", outputs=outputs)
    assert any(f"  {short}  BF16" in line for line in lines([replace(found, tensor=tensor)]))


def test_modules_elsewhere_are_told_in_full() -> None:
    (found,) = explain(plan(), "mtp.*.experts.down_proj")
    outputs = tuple(o._replace(name=o.name.replace("mtp.layers", "elsewhere")) for o in found.tensor.outputs)
    moved = replace(found, tensor=replace(found.tensor, outputs=outputs))
    assert any("  elsewhere.0.mlp.experts.{0-7}.down_proj.weight_scale" in line for line in lines([moved]))


def test_many_shards_are_counted() -> None:
    assert [line for line in lines(explain(plan(), "*.layers.*.mlp.gate.weight")) if "shard" in line] == [
        "  shard    2, from model-00001-of-00003.safetensors to model-00002-of-00003.safetensors",
        "  shard    model-00003-of-00003.safetensors",
    ]


def test_a_name_that_would_move_the_cursor_is_escaped() -> None:
    told = lines([renamed("lm_head.weight", "a\x1b[2J\n.weight")])
    assert told[0] == r"a\x1b[2J\n.weight"
    assert all(line.isprintable() for line in told)


def test_a_tensor_without_numbers() -> None:
    found = renamed("lm_head.weight", "empty.weight")
    tensor: PlannedTensor = replace(found.tensor, source=found.tensor.source._replace(shape=(0, 4), nbytes=0))
    outputs = (tensor.outputs[0]._replace(nbytes=0),)
    assert lines([replace(found, tensor=replace(tensor, outputs=outputs))])[-1] == "  size     0 B"
