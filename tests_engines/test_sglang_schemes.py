"""SGLang's own matching functions find, for every built-in scheme, the group that declares the planned format."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from schemegen.architectures.base import Part
from schemegen.engines.targets import formats_in_order
from tests_engines.schemes import CASES, SchemeCase, SchemeOutput
from tests_engines.sglang_source import Built, fused_layers, matching
from tests_engines.table import Table
from tests_engines.test_sglang import model_modules, planned_formats

Outputs = dict[SchemeCase, SchemeOutput]


@pytest.fixture(scope="module")
def functions() -> ModuleType:
    """SGLang's file, loaded once."""
    return matching()


class Matcher:
    """SGLang's CompressedTensorsConfig as far as it decides which group a module has: its rules, its functions."""

    def __init__(self, functions: ModuleType, block: dict[str, Any]) -> None:
        self.functions, self.ignore, self.fused = functions, block["ignore"], fused_layers()
        self.groups: dict[str, str] = {
            target: key for key, group in block["config_groups"].items() for target in group["targets"]
        }

    def group_of(self, module: Built) -> str | None:
        """`get_linear_scheme`, `get_moe_scheme` or `get_lm_head_scheme`: raises where SGLang would."""
        if module.kind == "FusedMoE":
            found = {self._find(f"{module.name}.0.{name}_proj", module.kind) for name in ("gate", "up", "down")}
            assert len(found) == 1
            return found.pop()
        if module.kind == "ParallelLMHead":
            if self.functions.should_ignore_layer(module.name, self.ignore, self.fused):
                return None
            named = (t for t in self.groups if self.functions.check_equal_or_regex_match(module.name, [t]))
            return self.groups.get(next(named, ""))
        return self._find(module.name, module.kind)

    def _find(self, name: str, kind: str) -> str | None:
        if self.functions.should_ignore_layer(name, self.ignore, self.fused):
            return None
        groups = {**self.groups, "FusedMoE": self.groups["Linear"], "DeepEPMoE": self.groups["Linear"]}
        layer: Any = type(kind, (), {})()
        target: str = self.functions.find_matched_target(
            layer_name=name, module=layer, targets=groups.keys(), fused_mapping=self.fused
        )
        return groups[target]


@pytest.mark.parametrize("scheme_case", CASES, ids=str)
def test_every_module_has_the_planned_group(
    scheme_case: SchemeCase, scheme_outputs: Outputs, functions: ModuleType, table: Table
) -> None:
    output: Any = scheme_outputs[scheme_case]
    matcher = Matcher(functions, output.block)
    groups = {name: f"group_{number}" for number, name in enumerate(formats_in_order(output.plan))}
    planned = planned_formats(output)
    found = {module.name: matcher.group_of(module) for module in model_modules(output) if module.quantizable}
    assert {name: {group} for name, group in found.items()} == {
        name: {None if format is None else groups[format] for format in planned[name]} for name in found
    }
    quantized = {name for name, formats in planned.items() if formats != {None} and "visual" not in name}
    assert quantized <= found.keys()
    notes = dict.fromkeys(note.partition("SGLang 0.5.23 ")[2] for note in output.plan.notes if "SGLang" in note)
    table.scheme(scheme_case.scheme, "SGLang", "; but ".join(["matches as planned", *notes]))


@pytest.mark.parametrize("scheme_case", CASES, ids=str)
def test_its_experts_find_their_scheme_where_sglang_looks(scheme_case: SchemeCase, scheme_outputs: Outputs) -> None:
    """INT4 experts read `format` on top, W4AFP8 experts the group of the target Linear."""
    output = scheme_outputs[scheme_case]
    block, experts = output.block, [t for t in output.plan.tensors if t.role == "routed_expert" and t.part is Part.TEXT]
    linear = next(group for group in block["config_groups"].values() if "Linear" in group["targets"])
    assert json.dumps(linear) == json.dumps(block["config_groups"]["group_0"])
    assert linear["format"] == block["format"]
    formats = {tensor.format for tensor in experts} - {None}
    assert formats <= {formats_in_order(output.plan)[0]}
