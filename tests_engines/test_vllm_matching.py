"""vLLM's own matcher, asked by its own model classes, gives each module what the plan says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from schemegen.architectures.base import Part, Role
from schemegen.planner import PlannedTensor
from tests_engines.cases import BITS, GROUP, Output, module_of
from tests_engines.conftest import RunOf
from tests_engines.running import Lookup, VllmRun
from tests_engines.table import Table

#: What vLLM's classes ask no matcher about, whatever a checkpoint says.
NEVER_ASKED = {Role.ROUTER, Role.SHARED_EXPERT_GATE, Role.EMBEDDING, Role.NORM, Role.STATE}
FORMATS = {None: None, "int4": f"int{BITS} group {GROUP}"}


def modules_of(tensor: PlannedTensor, run: VllmRun) -> set[str]:
    """As the trunk asks, and for the one layer that both have as the drafter, which renames nothing, asks too."""
    name = tensor.outputs[0].name
    names = {run.renamed[name], name} if tensor.role is Role.LM_HEAD else {run.renamed[name]}
    return {module_of(name, run.fused) for name in names}


def planned_formats(output: Output, run: VllmRun) -> Mapping[str, set[str | None]]:
    """By module of vLLM, the formats the plan has for its tensors."""
    formats: dict[str, set[str | None]] = defaultdict(set)
    for tensor in output.plan.tensors:
        for module in modules_of(tensor, run):
            formats[module].add(FORMATS[tensor.format])
    return formats


def answers(run: VllmRun) -> Mapping[str, Lookup]:
    """By module, what the matcher said; attention asks about its cache, which is none of the plan's."""
    return {lookup.module: lookup for lookup in run.lookups if lookup.kind != "Attention"}


def test_every_module_is_what_the_plan_says(output: Output, vllm_run: RunOf, table: Table) -> None:
    run = vllm_run(output.folder)
    planned, found = planned_formats(output, run), answers(run)
    assert {name: {lookup.format} for name, lookup in found.items()} == {name: planned[name] for name in found}
    experts = [lookup for lookup in found.values() if lookup.kind == "RoutedExperts"]
    assert {lookup.method for lookup in experts if lookup.format} == {"CompressedTensorsWNA16MoEMethod"}
    assert sum(lookup.format is not None for lookup in found.values()) == (4 if output.case.mtp_kept else 5)
    parts = {"vision": r"visual\.", "trunk": r"language_model\.", "MTP drafter": r"mtp\.|lm_head"}
    counts = ", ".join(f"{sum(bool(re.match(start, name)) for name in found)} {part}" for part, start in parts.items())
    table.add("vLLM", output.case, f"its matcher's answer for each of its modules ({counts})", "all as planned")


def test_every_module_that_a_plan_may_quantize_is_asked_about(output: Output, vllm_run: RunOf) -> None:
    run = vllm_run(output.folder)
    asked = answers(run).keys()
    unasked = [tensor for tensor in output.plan.tensors if not modules_of(tensor, run) <= asked]
    assert all(tensor.format is None for tensor in unasked)
    assert {tensor.role for tensor in unasked if tensor.part is not Part.VISION} <= NEVER_ASKED
