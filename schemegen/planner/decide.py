"""Which rule decides each tensor's fate: the first that matches; no match keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemegen.architectures.base import Architecture, Part, TensorInfo
from schemegen.checkpoint.model import Checkpoint, TensorHeader
from schemegen.planner.rules import ResolvedRule
from schemegen.planner.tensors import is_matrix

KEPT_BY_DEFAULT: Final = "no rule"
Depths = Mapping[Part, int]


@dataclass(frozen=True, slots=True)
class Decision:
    """A tensor, understood, with the label of the rule that decided and its format's name (None keeps)."""

    header: TensorHeader
    info: TensorInfo
    rule: str
    format: str | None


def depths_of(architecture: Architecture, checkpoint: Checkpoint, infos: Iterable[TensorInfo]) -> Depths:
    """The number of layers that the config promises in each part that is there."""
    return {part: architecture.depth(checkpoint.config, part) for part in {info.part for info in infos}}


def decide(
    checkpoint: Checkpoint, infos: Sequence[TensorInfo], depths: Depths, rules: Sequence[ResolvedRule]
) -> list[Decision]:
    """A decision for every tensor, in checkpoint order."""
    return [
        Decision(header, info, *_first_match(header, info, depths[info.part], rules))
        for header, info in zip(checkpoint.tensors, infos, strict=True)
    ]


def _first_match(
    header: TensorHeader, info: TensorInfo, depth: int, rules: Sequence[ResolvedRule]
) -> tuple[str, str | None]:
    for resolved in rules:
        if selects(resolved, header, info, depth):
            return resolved.label, resolved.format
    return KEPT_BY_DEFAULT, None


def selects(resolved: ResolvedRule, header: TensorHeader, info: TensorInfo, depth: int) -> bool:
    """Whether the rule would decide the tensor, had none before it; `depth` is the number of layers in its part."""
    return (resolved.format is None or holds_matrix(header, info)) and resolved.rule.matches(info, depth)


def holds_matrix(header: TensorHeader, info: TensorInfo) -> bool:
    """Whether the tensor is something a format applies to."""
    return is_matrix(header.name, header.shape, info.experts is not None)


def matrices(header: TensorHeader, info: TensorInfo) -> tuple[int, int, int]:
    """(how many, rows, columns) of the matrices a tensor holds."""
    if info.experts is None:
        rows, columns = header.shape
        return 1, rows, columns
    parts = len(info.experts.projections)
    experts, rows, columns = header.shape
    return experts * parts, rows // parts, columns
