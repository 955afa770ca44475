"""The modules that engines build as linear layers, by the names that they look up.

vLLM rewrites prefixes and fuses layers before it matches, SGLang and transformers keep the checkpoint's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from schemegen.architectures.base import PROTECTED_ROLES, Architecture, Part, Role
from schemegen.errors import PlanError
from schemegen.planner import Plan, PlannedTensor

Renames = Sequence[tuple[str, str]]
_NO_LINEAR: Final = frozenset({Role.EMBEDDING, Role.NORM, Role.STATE})
_EXPERT: Final = re.compile(r"(\.experts)\.\d+(?=\.|$)")
#: How many matrices of a split layer a message names.
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Module:
    """A linear layer as an engine looks it up, in the checkpoint's spelling; of a layer's experts only the first.

    `scope` names what takes one format in an engine: a layer's experts, a fused layer, or the module alone.
    `ignore` is the architecture's regex for its kind, `format` the plan's format, None where it is kept; `renames` are
    the prefixes that vLLM rewrites.
    """

    name: str
    scope: str
    role: Role
    part: Part
    ignore: str | None
    format: str | None
    renames: Renames = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name in every engine's spelling."""
        return spellings(self.name, self.renames)

    @property
    def place(self) -> tuple[str, ...]:
        """In every spelling, what all of it goes by: the container of a layer's experts, else the module itself."""
        return spellings(self.scope if self.role is Role.ROUTED_EXPERT else self.name, self.renames)


def spellings(name: str, renames: Renames) -> tuple[str, ...]:
    """A module's name in the checkpoint's and, where it differs, in vLLM's spelling."""
    return (name, *(new + name.removeprefix(old) for old, new in renames if name.startswith(old)))


def first_expert(name: str) -> str:
    """The name with expert number 0: engines ask for the first expert on behalf of all."""
    return _EXPERT.sub(r"\1.0", name)


def engine_modules(plan: Plan, architecture: Architecture) -> tuple[Module, ...]:
    """Every module that engines look up, each once; PlanError where one of their layers would mix formats."""
    found = {(module.name, module.format): module for module in _modules(plan, architecture)}
    formats: dict[str, set[str | None]] = {}
    for module in found.values():
        formats.setdefault(module.scope, set()).add(module.format)
    if mixed := [scope for scope, used in formats.items() if len(used) > 1]:
        raise _split(mixed, plan, architecture)
    return tuple(found.values())


def _modules(plan: Plan, architecture: Architecture) -> Iterator[Module]:
    seen: set[tuple[str, str | None]] = set()
    for tensor in filter(_may_be_linear, plan.tensors):
        key = first_expert(tensor.name), tensor.format
        if key not in seen:
            seen.add(key)
            yield from _modules_of(tensor, architecture, plan.layer_of)


def _may_be_linear(tensor: PlannedTensor) -> bool:
    if tensor.format is not None:
        return True
    rank = len(tensor.source.shape)
    return tensor.role not in _NO_LINEAR and (rank == 3 or (rank == 2 and tensor.name.endswith(".weight")))


def _modules_of(tensor: PlannedTensor, architecture: Architecture, layer_of: Callable[[str], str]) -> list[Module]:
    info = architecture.identify(tensor.name)

    def module(name: str, scope: str) -> Module:
        return Module(name, scope, tensor.role, tensor.part, info.ignore, tensor.format, architecture.renames)

    if info.experts is not None:
        names = [name for _, _, name in info.experts.module_names(info.module, 1)]
        return _expert_modules(names, module)
    if tensor.expert is not None:
        return _expert_modules([first_expert(info.module)], module)
    scope = layer_of(info.module)
    return [module(name, scope) for name in dict.fromkeys((info.module, scope))]


def _expert_modules(names: Iterable[str], module: Callable[[str, str], Module]) -> list[Module]:
    """The first expert's matrices, and the container that holds all experts of the layer."""
    container = next(iter(names)).rpartition(".0.")[0]
    return [module(name, container) for name in (*names, container)]


def _split(mixed: Sequence[str], plan: Plan, architecture: Architecture) -> PlanError:
    """The error that names the matrices of the first layer that a policy splits, with what becomes of each."""
    members = _members(mixed[0], plan, architecture)
    more = f" and {len(mixed) - 1} more" if len(mixed) > 1 else ""
    one_format = "" if members[0].role in PROTECTED_ROLES else "give all its matrices one format, or "
    return PlanError(
        f"engines build {mixed[0]}{more} as one layer, in one format, but the policy splits it: "
        f"{_fates(mixed[0], members)}; {one_format}keep them all"
    )


def _members(scope: str, plan: Plan, architecture: Architecture) -> list[PlannedTensor]:
    """The tensors of a layer as they are stored."""
    return [
        tensor
        for tensor in filter(_may_be_linear, plan.tensors)
        if any(module.scope == scope for module in _modules_of(tensor, architecture, plan.layer_of))
    ]


def _fates(scope: str, members: Sequence[PlannedTensor]) -> str:
    """What becomes of the matrices, one of each fate at least, such as `q_proj int4, k_proj kept`."""
    of_each = {tensor.format: tensor for tensor in reversed(members)}.values()
    named = list(dict.fromkeys(tensor.name for tensor in (*of_each, *members)))[:_NAMED]
    parent = scope.rpartition(".")[0]
    told = [
        f"{tensor.name.removeprefix(f'{parent}.').removesuffix('.weight')} {tensor.format or 'kept'}"
        for tensor in members
        if tensor.name in named
    ]
    more = len(members) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")
