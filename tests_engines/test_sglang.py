"""SGLang's own matching functions, over every module its model classes build, agree with the plan."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from schemegen.architectures.base import Role
from tests_engines.cases import Output, module_of
from tests_engines.sglang_source import VERSION, Built, built, fused_layers, matching
from tests_engines.table import Table

NO_LINEAR = {Role.EMBEDDING, Role.NORM, Role.STATE}

Formats = dict[str, set[str | None]]


@dataclass(frozen=True, slots=True)
class Matcher:
    """SGLang's CompressedTensorsConfig as far as it decides what is quantized: its rules, its functions."""

    functions: ModuleType
    ignore: list[str]
    targets: list[str]
    fused: dict[str, list[str]]

    def is_quantized(self, module: Built) -> bool:
        """`get_linear_scheme`, `get_moe_scheme` or `get_lm_head_scheme`: raises where SGLang would."""
        if module.kind == "FusedMoE":
            answers = {self._matches(f"{module.name}.0.{name}_proj", module.kind) for name in ("gate", "up", "down")}
            assert len(answers) == 1
            return answers.pop()
        if module.kind == "ParallelLMHead":
            head = module.name
            ignored = self.functions.should_ignore_layer(head, self.ignore, self.fused)
            return not ignored and self.functions.check_equal_or_regex_match(head, self.targets)
        return self._matches(module.name, module.kind)

    def _matches(self, name: str, kind: str) -> bool:
        if self.functions.should_ignore_layer(name, self.ignore, self.fused):
            return False
        targets = [*self.targets, "FusedMoE"] if "Linear" in self.targets else self.targets
        layer: Any = type(kind, (), {})()
        self.functions.find_matched_target(layer_name=name, module=layer, targets=targets, fused_mapping=self.fused)
        return True


@pytest.fixture(scope="module")
def functions() -> ModuleType:
    """SGLang's file, loaded once."""
    return matching()


@pytest.fixture
def block(output: Output) -> dict[str, Any]:
    """The quantization_config of the case's output."""
    found: dict[str, Any] = json.loads((output.folder / "config.json").read_text())["quantization_config"]
    return found


@pytest.fixture
def matcher(functions: ModuleType, block: dict[str, Any]) -> Matcher:
    """As SGLang sets itself up from the output."""
    targets = [target for group in block["config_groups"].values() for target in group["targets"]]
    return Matcher(functions, block["ignore"], targets, fused_layers())


def below(prefix: str, *classes: str) -> Iterator[Built]:
    """What classes build, under a prefix."""
    return (replace(module, name=f"{prefix}.{module.name}") for name in classes for module in built(name))


def layer_modules(layer: str, *, linear: bool) -> Iterator[Built]:
    """The modules of a decoder layer; its experts' block and the shared expert are classes of their own."""
    attention = ("linear_attn", "Qwen3_5GatedDeltaNet") if linear else ("self_attn", "Qwen3_5AttentionDecoderLayer")
    yield from (module for module in below(f"{layer}.{attention[0]}", attention[1]) if not module.name.endswith(".mlp"))
    for module in below(f"{layer}.mlp", "Qwen2MoeSparseMoeBlock"):
        yield from below(module.name, "Qwen2MoeMLP") if module.kind == "Qwen2MoeMLP" else [module]


def model_modules(output: Output) -> list[Built]:
    """Every module that SGLang's trunk and drafter build, its full name as they make it."""
    kinds = json.loads((output.folder / "config.json").read_text())["text_config"]["layer_types"]
    trunk = {module.name: module for module in built("Qwen3VLForConditionalGeneration")}
    drafter = {module.name: module for module in built("Qwen3_5ForCausalLMMTP")}
    assert trunk.keys() == {"model.visual", "model.language_model", "lm_head"}
    assert drafter.keys() == {"mtp", "lm_head"}
    found = [trunk["lm_head"], trunk["model.visual"]]
    for number, kind in enumerate(kinds):
        found += layer_modules(f"model.language_model.layers.{number}", linear=kind == "linear_attention")
    return [*found, *layer_modules("mtp.layers.0", linear=False)]


def planned_formats(output: Output) -> Formats:
    """By module of SGLang, the formats the plan has for its tensors."""
    fused = fused_layers()
    formats: Formats = defaultdict(set)
    for tensor in output.plan.tensors:
        formats[module_of(tensor.outputs[0].name, fused)].add(tensor.format)
    return formats


def test_every_module_is_what_the_plan_says(output: Output, matcher: Matcher, table: Table) -> None:
    planned = planned_formats(output)
    modules = [module for module in model_modules(output) if module.quantizable]
    found = {module.name: matcher.is_quantized(module) for module in modules}
    assert {name: {quantized} for name, quantized in found.items()} == {
        name: {format is not None for format in planned[name]} for name in found
    }
    quantized = {name for name, formats in planned.items() if formats != {None}}
    assert quantized <= found.keys()
    assert len(quantized) == (4 if output.case.mtp_kept else 5)
    compared = f"its matching functions for the {len(found)} modules its classes quantize (source {VERSION})"
    table.add("SGLang", output.case, compared, "all as planned")


def test_every_kept_module_of_the_checkpoint_is_ignored(output: Output, functions: ModuleType, block: Any) -> None:
    """Also where SGLang asks nobody: the vision tower, `mtp.fc`, routers; it raises for what it finds in no list."""
    kept = {
        tensor.name.removesuffix(".weight")
        for tensor in output.plan.tensors
        if tensor.format is None and tensor.role not in NO_LINEAR and len(tensor.source.shape) > 1
    }
    assert {"mtp.fc", "model.visual.merger.linear_fc1", "model.language_model.layers.0.mlp.gate"} <= kept
    assert [name for name in kept if not functions.should_ignore_layer(name, block["ignore"], {})] == []


def test_the_experts_format_stands_on_top(block: dict[str, Any]) -> None:
    """SGLang's INT4 experts heed no other."""
    assert block["format"] == "pack-quantized"
