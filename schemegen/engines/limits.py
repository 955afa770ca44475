"""Which engines take a plan: an error where none does, a note with the reason where one does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Final

from schemegen.architectures.base import Architecture, Part, Role
from schemegen.engines.modules import Module, engine_modules
from schemegen.engines.rules import RULES, Kind, Use
from schemegen.engines.serving import VERSIONS
from schemegen.engines.targets import formats_in_order
from schemegen.errors import UnsupportedError
from schemegen.formats import storage_of
from schemegen.planner import Plan, PlannedTensor

ENGINES: Final = {**VERSIONS, "transformers": "5.17"}
_KINDS: Final = {Role.ROUTED_EXPERT: Kind.EXPERTS, Role.LM_HEAD: Kind.HEAD}
_MXFP4: Final = "mxfp4-pack-quantized"
#: A smaller model is not split over GPUs.
_SPLIT_BYTES: Final = 10 << 30
_GPUS: Final = 8


def engine_notes(plan: Plan, architecture: Architecture) -> tuple[str, ...]:
    """What some engine does not take, each with its reason; UnsupportedError for what none takes."""
    modules = engine_modules(plan, architecture)
    told = [note for name, use in uses(plan, architecture) for note in _use_notes(name, use)]
    return tuple(dict.fromkeys([*told, *_model_notes(plan, modules), *_split_notes(plan, architecture)]))


def uses(plan: Plan, architecture: Architecture) -> Iterator[tuple[str, Use]]:
    """Every format in every use, with the format's name."""
    found: dict[tuple[str, Kind], list[PlannedTensor]] = {}
    for tensor in plan.tensors:
        if tensor.format is not None:
            found.setdefault((tensor.format, _KINDS.get(tensor.role, Kind.LINEAR)), []).append(tensor)
    above = {member for members in architecture.fusions.values() for member in members[:-1]}
    first = _first_storage(plan)
    for (name, kind), tensors in found.items():
        format = plan.scheme.formats[name]
        stacked = frozenset(t.matrix_shape[0] for t in tensors if t.modules[0].rpartition(".")[2] in above)
        shapes, parts = frozenset(t.matrix_shape for t in tensors), frozenset(t.part for t in tensors)
        yield name, Use(kind, format, storage_of(format), first, shapes, stacked, parts)


def refusals(use: Use) -> dict[str, str]:
    """By engine, why it does not take a format in this use."""
    found = {engine: next((why for rule in rules if (why := rule(use))), None) for engine, rules in RULES.items()}
    return {engine: why for engine, why in found.items() if why is not None}


def _use_notes(name: str, use: Use) -> Iterator[str]:
    told = [f"{engine} {ENGINES[engine]} {why}" for engine, why in refusals(use).items()]
    if len(told) == len(ENGINES):
        reasons = "; ".join(told)
        raise UnsupportedError(f"no engine takes {use.kind} in format {name!r}: {reasons}; take another format")
    yield from (f"{use.kind} in format {name!r}: {text}" for text in told)


def _model_notes(plan: Plan, modules: Iterable[Module]) -> Iterator[str]:
    """What depends on which layers' experts have which format."""
    experts = {module.scope: module for module in modules if module.role is Role.ROUTED_EXPERT}
    formats = {module.format for module in experts.values() if module.part is Part.TEXT} - {None}
    if len(formats) > 1:
        yield f"transformers {ENGINES['transformers']} decodes the routed experts of all layers as one format"
    other = [name for name, module in experts.items() if _storage(plan, module.format) != _MXFP4]
    if _first_storage(plan) == _MXFP4 and other:
        yield f"SGLang {ENGINES['SGLang']} takes all routed experts for MXFP4, those of {other[0]} too, which are not"


def _storage(plan: Plan, name: str | None) -> str | None:
    return None if name is None else storage_of(plan.scheme.formats[name])


def _first_storage(plan: Plan) -> str:
    return storage_of(plan.scheme.formats[formats_in_order(plan)[0]])


def _split_notes(plan: Plan, architecture: Architecture) -> Iterator[str]:
    """Over how few GPUs engines can split experts, each of which must get whole groups of down_proj's columns."""
    if plan.totals.bytes_out < _SPLIT_BYTES:
        return
    for tensor in plan.tensors:
        if tensor.format is not None and tensor.role is Role.ROUTED_EXPERT and _is_down(tensor, architecture):
            weights = plan.format_of(tensor).weights
            size = weights.block_structure[1] if weights.block_structure else weights.group_size
            groups = tensor.matrix_shape[1] // size if size else _GPUS
            if (most := gcd(groups, _GPUS)) < _GPUS:
                yield f"routed experts can be split over at most {most} GPUs (tensor parallelism), in groups of {size}"


def _is_down(tensor: PlannedTensor, architecture: Architecture) -> bool:
    info = architecture.identify(tensor.name)
    return (info.experts.projections[0] if info.experts else info.projection) == "down"
