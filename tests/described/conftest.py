"""Quantized checkpoints as headers alone: what a plan would write, with a config of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.checkpoints import SMALL
from bench.schemes import headers_of, plan_of
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.catalog import load_catalog
from schemegen.checkpoint.model import Checkpoint, TensorHeader
from schemegen.described import Description, describe_checkpoint
from schemegen.engines import declare
from schemegen.planner import Plan
from schemegen.planner.build import make_plan
from schemegen.planner.rules import resolve_rules
from schemegen.scheme import Scheme

Quantized = Callable[..., Checkpoint]
Describe = Callable[[Checkpoint], Description]
PlanOf = Callable[..., Plan]

FUSED = headers_of(SMALL)
ALONE = headers_of(replace(SMALL, fused_trunk=False, fused_mtp=False))
CATALOG = load_catalog()
POLICIES = [policy for policy in CATALOG.policies if CATALOG.policies.origin(policy.name) == "schemegen"]
FORMATS: Mapping[str, Any] = {
    "int4": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True},
    "int8": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
}


def rewritten(plan: Plan, source: Checkpoint, block: Mapping[str, Any]) -> Checkpoint:
    """The output of a plan, with this quantization_config."""
    tensors = tuple(
        TensorHeader(found.name, found.dtype, found.shape, found.file, found.offset, found.nbytes)
        for outputs in plan.outputs.values()
        for found in outputs
    )
    return replace(source, tensors=tensors, config={**source.config, "quantization_config": block})


@pytest.fixture(scope="session")
def sources() -> Mapping[str, Checkpoint]:
    """The same small model in full precision, its experts fused and one by one."""
    return {"fused": FUSED, "alone": ALONE}


@pytest.fixture(scope="session")
def written() -> Callable[[Plan, Checkpoint], Checkpoint]:
    """What a plan writes from a source, its config included."""
    return lambda plan, source: rewritten(plan, source, declare(plan, QWEN3_5_MOE))


@pytest.fixture(scope="session")
def describe() -> Describe:
    """What the package tells of a checkpoint, with the policies that ship."""
    return lambda checkpoint: describe_checkpoint(checkpoint, CATALOG.architecture_of, POLICIES)


@pytest.fixture(scope="session")
def plan() -> PlanOf:
    """A factory: a scheme, and a source → its plan, whether or not engines or backends take it."""
    return lambda scheme, source=None: plan_of(scheme, source or ALONE, CATALOG)


@pytest.fixture(scope="session")
def quantized() -> Quantized:
    """A factory: rules over `int4` and `int8`, what else the block says, each format's targets → a checkpoint."""

    def make(
        *rules: str | dict[str, Any],
        block: Mapping[str, Any] | None = None,
        targets: Mapping[str, Sequence[str]] | None = None,
        source: Checkpoint = ALONE,
    ) -> Checkpoint:
        used = {name: FORMATS[name] for name in FORMATS if any(name in repr(rule) for rule in rules)}
        scheme = Scheme.model_validate(
            {"schema_version": 1, "name": "t", "summary": "a test's", "formats": used, "policy": list(rules)}
        )
        made = make_plan(source, QWEN3_5_MOE, scheme, resolve_rules(scheme, CATALOG.policies.get))
        groups = {
            name: {"targets": list((targets or {}).get(name, ["Linear"])), "weights": format}
            for name, format in used.items()
        }
        kept = [found.name.removesuffix(".weight") for found in made.tensors if found.is_matrix and not found.format]
        told = {
            "quant_method": "compressed-tensors",
            "config_groups": groups,
            "ignore": kept,
            "format": "pack-quantized",
        }
        return rewritten(made, source, {**told, **(block or {})})

    return make
