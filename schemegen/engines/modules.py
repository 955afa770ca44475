"""The modules that engines build as linear layers, by the names that they look up.

vLLM rewrites prefixes and fuses layers before it matches, SGLang and transformers keep the checkpoint's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from schemegen.architectures.base import Architecture, Part, Role
from schemegen.errors import PlanError
from schemegen.planner import Action, Plan, PlannedTensor

#: Prefixes that vLLM rewrites; a name matches an engine's entry only in that engine's spelling.
RENAMES: Final = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    ("lm_head", "language_model.lm_head"),
)
#: Layers that vLLM and SGLang build as one, by its name.
FUSIONS: Final = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
}
_FUSED_NAME: Final = {member: fused for fused, members in FUSIONS.items() for member in members}
_NO_LINEAR: Final = frozenset({Role.EMBEDDING, Role.NORM, Role.STATE})
_EXPERT: Final = re.compile(r"(\.experts)\.\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Module:
    """A linear layer as an engine looks it up, in the checkpoint's spelling; of a layer's experts only the first.

    `scope` names what takes one format in an engine: a layer's experts, a fused layer, or the module alone.
    `ignore` is the architecture's regex for its kind, `format` the plan's format, None where it is kept.
    """

    name: str
    scope: str
    role: Role
    part: Part
    ignore: str | None
    format: str | None


def spellings(name: str) -> tuple[str, ...]:
    """A module's name in the checkpoint's and, where it differs, in vLLM's spelling."""
    renamed = (new + name.removeprefix(old) for old, new in RENAMES if name.startswith(old))
    return (name, *renamed)


def first_expert(name: str) -> str:
    """The name with expert number 0: engines ask for the first expert on behalf of all."""
    return _EXPERT.sub(r"\1.0", name)


def engine_modules(plan: Plan, architecture: Architecture) -> tuple[Module, ...]:
    """Every module that engines look up, each once; PlanError where one of their layers would mix formats."""
    found = {(module.name, module.format): module for module in _modules(plan, architecture)}
    _check_scopes(found.values())
    return tuple(found.values())


def _modules(plan: Plan, architecture: Architecture) -> Iterator[Module]:
    seen: set[tuple[str, Action]] = set()
    for tensor in filter(_may_be_linear, plan.tensors):
        key = first_expert(tensor.name), tensor.action
        if key not in seen:
            seen.add(key)
            yield from _modules_of(tensor, architecture)


def _may_be_linear(tensor: PlannedTensor) -> bool:
    if tensor.action is Action.QUANTIZE:
        return True
    rank = len(tensor.source.shape)
    return tensor.role not in _NO_LINEAR and (rank == 3 or (rank == 2 and tensor.name.endswith(".weight")))


def _modules_of(tensor: PlannedTensor, architecture: Architecture) -> list[Module]:
    info = architecture.identify(tensor.name)

    def module(name: str, scope: str) -> Module:
        return Module(name, scope, tensor.role, tensor.part, info.ignore, tensor.format)

    if info.experts is not None:
        names = [name for _, _, name in info.experts.module_names(info.module, 1)]
        return _expert_modules(names, module)
    if tensor.expert is not None:
        return _expert_modules([first_expert(info.module)], module)
    parent, _, last = info.module.rpartition(".")
    if fused := _FUSED_NAME.get(last):
        scope = f"{parent}.{fused}"
        return [module(info.module, scope), module(scope, scope)]
    return [module(info.module, info.module)]


def _expert_modules(names: Iterable[str], module: Callable[[str, str], Module]) -> list[Module]:
    """The first expert's matrices, and the container that holds all experts of the layer."""
    container = next(iter(names)).rpartition(".0.")[0]
    return [module(name, container) for name in (*names, container)]


def _check_scopes(modules: Iterable[Module]) -> None:
    formats: dict[str, set[str | None]] = {}
    for module in modules:
        formats.setdefault(module.scope, set()).add(module.format)
    mixed = [scope for scope, found in formats.items() if len(found) > 1]
    if mixed:
        more = f" and {len(mixed) - 1} more" if len(mixed) > 1 else ""
        raise PlanError(
            f"engines build {mixed[0]}{more} as one layer, in one format, but the policy splits it: "
            "quantize all its matrices or keep them all"
        )
