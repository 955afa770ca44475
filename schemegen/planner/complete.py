"""Whether a checkpoint holds all that its config promises: layers, experts and their projections.

Works over what is stored alone, since a config may promise any number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from schemegen.architectures.base import Architecture, Part, Role, TensorInfo
from schemegen.checkpoint.model import Checkpoint, TensorHeader

_NAMED: Final = 3
"""How many of the numbers that are missing a message names."""


@dataclass(slots=True)
class _Layer:
    """What one layer, or a part outside its layers, holds of routed experts: `alone` by (expert, projection)."""

    part: Part
    number: int | None
    routed: bool = False
    fused: set[str] = field(default_factory=set)
    alone: dict[tuple[int, str, str], TensorHeader] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.part} layer {self.number}"

    @property
    def projections(self) -> set[str]:
        return self.fused | {projection for _, projection, _ in self.alone}


def layer_faults(architecture: Architecture, checkpoint: Checkpoint, infos: Sequence[TensorInfo]) -> Iterator[str]:
    """Layers beyond what the config promises, and layers of text or of another part that is there which are missing."""
    stored: dict[Part, set[int]] = {Part.TEXT: set()}
    for info in infos:
        stored.setdefault(info.part, set()).update([] if info.layer is None else [info.layer])
    depths = {part: architecture.depth(checkpoint.config, part) for part in stored}
    for info in infos:
        if info.layer is not None and info.layer >= (depth := depths[info.part]):
            yield f"{info.name}: layer {info.layer}, the config promises {depth} layers in part {info.part}"
    for part, layers in stored.items():
        if missing := _missing(layers, depths[part]):
            yield f"part {part} lacks layer {missing} of the {depths[part]} that the config promises"


def name_faults(architecture: Architecture, checkpoint: Checkpoint) -> Iterator[str]:
    """Tensors outside layers without which there is no model."""
    names = {tensor.name for tensor in checkpoint.tensors}
    for name in architecture.required(checkpoint.config):
        if name not in names:
            yield f"tensor {name} is missing"


def expert_faults(architecture: Architecture, checkpoint: Checkpoint, infos: Sequence[TensorInfo]) -> Iterator[str]:
    """Routed experts, fused or one by one: all projections in every layer that has them, and a router's experts.

    Those stored one by one: as many as the config promises, with the shapes of expert 0.
    """
    layers = _layers(zip(checkpoint.tensors, infos, strict=True))
    expected = _projections(architecture, layers)
    for layer in layers:
        holds = layer.projections
        if layer.routed and not holds:
            yield f"{layer.where} has a router and no routed experts"
        if holds:
            for projection in sorted(expected[layer.part] - holds):
                yield f"{layer.where}: no expert has a {projection} projection"
        if layer.alone:
            yield from _alone_faults(layer, architecture.experts(checkpoint.config))


def _layers(tensors: Iterable[tuple[TensorHeader, TensorInfo]]) -> Collection[_Layer]:
    layers: dict[tuple[Part, int | None], _Layer] = {}
    for header, info in tensors:
        layer = layers.setdefault((info.part, info.layer), _Layer(info.part, info.layer))
        layer.routed |= info.role is Role.ROUTER
        if info.role is not Role.ROUTED_EXPERT:
            continue
        if info.experts is not None:
            layer.fused.update(info.experts.projections)
        elif info.expert is not None:
            layer.alone[info.expert, info.projection or "unnamed", header.name.rpartition(".")[2]] = header
    return layers.values()


def _projections(architecture: Architecture, layers: Iterable[_Layer]) -> Mapping[Part, set[str]]:
    """By part, what experts have: the projections that any layer stores and those of every fused layout known."""
    found: dict[Part, set[str]] = {}
    for layer in layers:
        found.setdefault(layer.part, set()).update(layer.projections)
    for rule in architecture.rules:
        if rule.role is Role.ROUTED_EXPERT and rule.experts is not None and found.get(rule.part):
            found[rule.part].update(rule.experts.projections)
    return found


def _alone_faults(layer: _Layer, count: int) -> Iterator[str]:
    stored: dict[str, set[int]] = {}
    for expert, projection, _ in layer.alone:
        stored.setdefault(projection, set()).add(expert)
    for projection, experts in sorted(stored.items()):
        if missing := _missing(experts, count):
            yield f"{layer.where} lacks the {projection} projection of expert {missing}"
    for (expert, projection, last), header in layer.alone.items():
        if expert >= count:
            yield f"{header.name}: expert {expert}, the config promises {count} experts"
        elif header.shape != layer.alone.get((0, projection, last), header).shape:
            yield f"{header.name}: shape {list(header.shape)} differs from expert 0's in {layer.where}"


def _missing(stored: Collection[int], count: int) -> str | None:
    """Which of 0 … count - 1 are not in `stored`, in words, or None where all are."""
    rest = count - sum(number < count for number in stored)
    if not rest:
        return None
    named = [*islice((number for number in range(count) if number not in stored), _NAMED)]
    more = rest - len(named)
    return ", ".join(map(str, named)) + (f" and {more} more" if more else "")
