"""Which engines take a plan: an error where none does, a note with the reason where one does not."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from math import gcd
from typing import Final

from schemegen.architectures.base import Architecture, Part, Role
from schemegen.engines.ignore import unused_patterns
from schemegen.engines.modules import Module
from schemegen.engines.rules import REMARKS, RULES, Rules
from schemegen.engines.serving import VERSIONS
from schemegen.engines.targets import formats_in_order
from schemegen.engines.uses import UNQUANTIZED, Kind, Use
from schemegen.errors import UnsupportedError
from schemegen.formats import storage_of
from schemegen.planner import Plan, PlannedTensor

_KINDS: Final = {Role.ROUTED_EXPERT: Kind.EXPERTS, Role.LM_HEAD: Kind.HEAD}
_MXFP4: Final = "mxfp4-pack-quantized"
#: A smaller model is not split over GPUs.
_SPLIT_BYTES: Final = 10 << 30
_GPUS: Final = 8
_DECODER: Final = "transformers"
_ALSO: Final = "; it also "


def engine_notes(plan: Plan, architecture: Architecture, modules: Iterable[Module]) -> tuple[str, ...]:
    """What some engine does not take, each with its reason; UnsupportedError for what none takes.

    `modules` are those that engines look up, as `check_declaration` returns them.
    """
    looked_up = tuple(modules)
    told = [note for name, use in uses(plan, architecture) for note in _use_notes(name, use)]
    told += [*_model_notes(plan, looked_up), *_ignore_notes(looked_up, architecture), *_split_notes(plan, architecture)]
    return tuple(dict.fromkeys(told))


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
    """By engine, why it does not take a format in this use: all its reasons."""
    return _answers(use, RULES)


def remarks(use: Use) -> dict[str, str]:
    """By engine that takes a format in this use, what it needs or does for that."""
    refused = refusals(use)
    return {engine: told for engine, told in _answers(use, REMARKS).items() if engine not in refused}


def _answers(use: Use, rules: Rules) -> dict[str, str]:
    found = {engine: dict.fromkeys(filter(None, (rule(use) for rule in those))) for engine, those in rules.items()}
    return {engine: _ALSO.join(reasons) for engine, reasons in found.items() if reasons}


def unserved(use: Use) -> str | None:
    """Why no engine at all takes a format in this use, or None where one does."""
    refused = refusals(use)
    told = [f"{engine} {VERSIONS[engine]} {why}" for engine, why in (refused | _undeclared(use, refused)).items()]
    return "; ".join(told) if len(told) == len(VERSIONS) else None


def _use_notes(name: str, use: Use) -> Iterator[str]:
    if reasons := unserved(use):
        raise UnsupportedError(f"no engine takes {use.kind} in format {name!r}: {reasons}; take another format")
    notes = refusals(use) | remarks(use)
    yield from (f"{use.kind} in format {name!r}: {engine} {VERSIONS[engine]} {why}" for engine, why in notes.items())


def _undeclared(use: Use, refused: Container[str]) -> dict[str, str]:
    """transformers can decode experts whose activations nothing can quantize, but that is another format."""
    plain = not use.experts or use.activations == UNQUANTIZED or _DECODER in refused
    return {} if plain else {_DECODER: "decodes experts and leaves their activations unquantized"}


def _model_notes(plan: Plan, modules: Iterable[Module]) -> Iterator[str]:
    """What depends on which layers' experts have which format."""
    experts = {module.scope: module for module in modules if module.role is Role.ROUTED_EXPERT}
    formats = {module.format for module in experts.values() if module.part is Part.TEXT} - {None}
    if len(formats) > 1:
        yield f"transformers {VERSIONS['transformers']} decodes the routed experts of all layers as one format"
    other = [name for name, module in experts.items() if _storage(plan, module.format) != _MXFP4]
    if _first_storage(plan) == _MXFP4 and other:
        yield f"SGLang {VERSIONS['SGLang']} takes all routed experts for MXFP4, those of {other[0]} too, which are not"


def _ignore_notes(modules: Sequence[Module], architecture: Architecture) -> Iterator[str]:
    """Patterns of the architecture that cannot say what is kept, for engines then read modules one by one."""
    for pattern, (hit, count) in unused_patterns(modules, architecture.part_ignores).items():
        kept = "a kept module is" if count == 1 else f"{count} kept modules are"
        yield f"{pattern} cannot stand in ignore, for it hits {hit}, which is quantized: {kept} named by place there"


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
