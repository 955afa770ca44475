"""vLLM's model classes take every built-in scheme: its matcher finds the planned formats, its loader loses nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from schemegen.architectures.base import Part, Role
from tests_engines.cases import module_of
from tests_engines.schemes import CASES, SchemeCase, SchemeOutput, summary_of
from tests_engines.table import Table
from tests_engines.vllm_load import is_same

#: What vLLM's classes ask no matcher about, whatever a checkpoint says.
NEVER_ASKED = {Role.ROUTER, Role.SHARED_EXPERT_GATE, Role.EMBEDDING, Role.NORM, Role.STATE}
#: Built for activations that this format leaves alone, and set by no checkpoint of it.
UNUSED = "input_global_scale"

Outputs = dict[SchemeCase, SchemeOutput]
Loads = dict[SchemeCase, dict[str, Any]]


def planned_formats(output: SchemeOutput, load: dict[str, Any]) -> dict[str, set[str | None]]:
    """By module of vLLM, the formats the plan has for its tensors; the drafter asks for the head by its plain name."""
    formats: dict[str, set[str | None]] = defaultdict(set)
    for tensor in output.plan.tensors:
        name = tensor.outputs[0].name
        names = {load["renamed"][name], name} if tensor.role is Role.LM_HEAD else {load["renamed"][name]}
        for module in (module_of(name, load["fused"]) for name in names):
            formats[module].add(None if tensor.format is None else summary_of(output.plan.format_of(tensor)))
    return formats


@pytest.mark.parametrize("scheme_case", CASES, ids=str)
def test_its_matcher_finds_the_planned_formats(
    scheme_case: SchemeCase, scheme_outputs: Outputs, vllm_loads: Loads
) -> None:
    output, load = scheme_outputs[scheme_case], vllm_loads[scheme_case]
    assert "error" not in load, load
    planned = planned_formats(output, load)
    found = {module: format for _, module, _, format in load["lookups"]}
    assert {module: {format} for module, format in found.items()} == {module: planned[module] for module in found}
    unasked = [tensor for tensor in output.plan.tensors if tensor.format is None]
    unasked = [t for t in unasked if module_of(load["renamed"][t.outputs[0].name], load["fused"]) not in found]
    assert {tensor.role for tensor in unasked if tensor.part is not Part.VISION} <= NEVER_ASKED
    quantized = {module for module, formats in planned.items() if formats != {None}}
    assert quantized <= found.keys()


@pytest.mark.parametrize("scheme_case", CASES, ids=str)
def test_its_loader_puts_every_stored_tensor_in_place(
    scheme_case: SchemeCase, scheme_outputs: Outputs, vllm_loads: Loads, table: Table
) -> None:
    """Codes and scales as stored, experts stacked and fused layers joined; parameters held NaN before."""
    output, load = scheme_outputs[scheme_case], vllm_loads[scheme_case]
    assert "error" not in load, load
    assert load["differing"] == []
    assert [name for name in load["missing"] if UNUSED not in name] == []
    modules = {module for tensor in output.plan.tensors if tensor.format for module in tensor.modules}
    assert len(load["compared"]) >= len({module_of(f"{name}.weight", load["fused"]) for name in modules})
    table.scheme(scheme_case.scheme, "vLLM", f"as planned, {len(load['compared'])} parameters equal")


def test_a_number_of_a_whole_matrix_may_be_held_several_times() -> None:
    """vLLM counts three matrices in in_proj_qkv, and holds their one scale three times before that of in_proj_z."""
    from torch import tensor

    assert is_same(tensor([2.0, 2.0, 2.0, 3.0]), tensor([2.0, 3.0]))
    assert not is_same(tensor([2.0, 3.0, 3.0, 2.0]), tensor([2.0, 3.0]))
    assert not is_same(tensor([[2.0, 2.0], [3.0, 3.0]]), tensor([[2.0], [3.0]]))
    assert not is_same(tensor([3.0, 2.0]), tensor([2.0, 3.0]))
