"""What a model is made of: its tensors by part and role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from schemegen.architectures.base import Architecture, Part, Role, TensorInfo
from schemegen.checkpoint.model import Checkpoint, TensorHeader
from schemegen.checkpoint.quantized import find_quantization
from schemegen.errors import UnsupportedError

Layout = Literal["", "fused", "one by one"]


@dataclass(frozen=True, slots=True)
class InspectionRow:
    """The tensors of one part, role, dtype and, for routed experts, layout."""

    part: Part
    role: Role
    dtype: str
    layout: Layout
    tensors: int
    parameters: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """A model from its headers. `quantization` says what is already quantized, if anything is."""

    model_id: str
    revision: str | None
    architecture: str
    shards: int
    tensors: int
    parameters: int
    nbytes: int
    rows: tuple[InspectionRow, ...]
    quantization: str | None
    side_files: tuple[str, ...]
    unindexed: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor by its header; `part` and `role` are those that the architecture gives it, None where it knows none."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    part: Part | None
    role: Role | None


def names_of(checkpoint: Checkpoint, architecture: Architecture | None) -> tuple[NamedTensor, ...]:
    """Every tensor by name, in checkpoint order, whether the architecture knows it or not."""
    return tuple(
        NamedTensor(tensor.name, tensor.dtype, tensor.shape, *_place(tensor.name, architecture))
        for tensor in checkpoint.tensors
    )


def _place(name: str, architecture: Architecture | None) -> tuple[Part, Role] | tuple[None, None]:
    try:
        info = None if architecture is None else architecture.identify(name)
    except UnsupportedError:
        return None, None
    return (None, None) if info is None else (info.part, info.role)


def look_at(checkpoint: Checkpoint, architecture: Architecture) -> Inspection:
    """Identify every tensor; UnsupportedError for a name the architecture does not know."""
    quantization = find_quantization(checkpoint)
    return Inspection(
        checkpoint.model_id,
        checkpoint.revision,
        architecture.name,
        len(checkpoint.shards),
        len(checkpoint.tensors),
        sum(prod(tensor.shape) for tensor in checkpoint.tensors),
        checkpoint.nbytes,
        () if quantization else tuple(_rows(checkpoint, architecture)),
        quantization,
        tuple(file.name for file in checkpoint.side_files),
        tuple(file.name for file in checkpoint.unindexed),
        checkpoint.notes,
    )


def _rows(checkpoint: Checkpoint, architecture: Architecture) -> Iterator[InspectionRow]:
    groups: dict[tuple[Part, Role, str, Layout], list[TensorHeader]] = {}
    infos = architecture.identify_all(tensor.name for tensor in checkpoint.tensors)
    for tensor, info in zip(checkpoint.tensors, infos, strict=True):
        groups.setdefault((info.part, info.role, tensor.dtype, _layout(info)), []).append(tensor)
    for key, tensors in sorted(groups.items(), key=lambda item: _order(item[0])):
        yield InspectionRow(*key, len(tensors), sum(prod(t.shape) for t in tensors), sum(t.nbytes for t in tensors))


def _layout(info: TensorInfo) -> Layout:
    if info.role is not Role.ROUTED_EXPERT:
        return ""
    return "one by one" if info.experts is None else "fused"


def _order(key: tuple[Part, Role, str, Layout]) -> tuple[int, int, str, str]:
    return list(Part).index(key[0]), list(Role).index(key[1]), key[2], key[3]
