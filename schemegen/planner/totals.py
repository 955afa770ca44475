"""Counts and bytes of a plan, whole and by part and role."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from schemegen.architectures.base import Part, Role
from schemegen.planner.tensors import Action, PlannedTensor


class RoleTotals(NamedTuple):
    """Sums over the tensors of one part and role."""

    part: Part
    role: Role
    action: Action
    format: str | None
    tensors_in: int
    tensors_out: int
    parameters: int
    bytes_in: int
    bytes_out: int

    @property
    def bits_per_weight(self) -> float | None:
        """Bits stored for each number of the source; None where there is none."""
        return bits_per_weight(self.bytes_out, self.parameters)


class Totals(NamedTuple):
    """Sums over the plan; bytes are those of tensors, without file headers."""

    tensors_in: int
    tensors_out: int
    bytes_in: int
    bytes_out: int
    by_role: tuple[RoleTotals, ...]

    @property
    def parameters(self) -> int:
        """Numbers that the source holds."""
        return sum(row.parameters for row in self.by_role)

    @property
    def bits_per_weight(self) -> float | None:
        """Bits stored for each number of the source; None where there is none."""
        return bits_per_weight(self.bytes_out, self.parameters)


def bits_per_weight(nbytes: int, numbers: int) -> float | None:
    """Bits of what is stored for each of so many numbers; None where there is none."""
    return 8 * nbytes / numbers if numbers else None


def totals_of(tensors: Iterable[PlannedTensor]) -> Totals:
    """Sums over the tensors."""
    sums: dict[tuple[Part, Role, Action, str | None], list[int]] = {}
    for tensor in tensors:
        row = sums.setdefault((tensor.part, tensor.role, tensor.action, tensor.format), [0] * 5)
        added = (1, len(tensor.outputs), prod(tensor.source.shape), tensor.source.nbytes, tensor.nbytes)
        row[:] = [old + new for old, new in zip(row, added, strict=True)]
    by_role = tuple(RoleTotals(*key, *row) for key, row in sorted(sums.items(), key=lambda item: _order(item[0])))
    tensors_in, tensors_out, _, bytes_in, bytes_out = (sum(column) for column in zip(*sums.values(), strict=True))
    return Totals(tensors_in, tensors_out, bytes_in, bytes_out, by_role)


def _order(key: tuple[Part, Role, Action, str | None]) -> tuple[int, int, str]:
    return list(Part).index(key[0]), list(Role).index(key[1]), key[2]
