"""The uses that a plan makes of its formats, in words that the rules of engines are about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from schemegen.architectures.base import Part
from schemegen.scheme import Format, Quantization

#: Of activations that no scheme quantizes.
UNQUANTIZED: Final = "unquantized"


class Kind(StrEnum):
    """What engines have classes of their own for."""

    EXPERTS = "routed experts"
    HEAD = "the output head"
    LINEAR = "linear layers"


@dataclass(frozen=True, slots=True)
class Use:
    """One format in one use: its storage and the first group's, and where it is used.

    `shapes` are [rows, columns] of its matrices, `stacked` the rows of those that lie above another in a fused layer.
    """

    kind: Kind
    format: Format
    storage: str
    first_storage: str
    shapes: frozenset[tuple[int, int]]
    stacked: frozenset[int]
    parts: frozenset[Part]

    @property
    def experts(self) -> bool:
        """Whether these are routed experts, which engines run with kernels of their own."""
        return self.kind is Kind.EXPERTS

    @property
    def activations(self) -> str:
        """How activations are quantized, such as `FP8 by token`, or UNQUANTIZED."""
        found, block = self.format.input_activations, self.format.weights.block_structure
        return UNQUANTIZED if found is None else _activations(found, block[1] if block else None)

    @property
    def words(self) -> str:
        """The weights in words, such as `int-quantized weights by channel`."""
        return f"{self.storage} {'experts' if self.experts else 'weights'} by {self.format.weights.strategy}"

    @property
    def integers(self) -> str:
        """Packed integers in words, such as `asymmetric INT8 in groups of 32`."""
        weights = self.format.weights
        told = f"{'' if weights.symmetric else 'asymmetric '}INT{weights.num_bits}"
        return told if weights.group_size is None else f"{told} in groups of {weights.group_size}"


def _activations(values: Quantization, block: int | None) -> str:
    told = f"{'INT' if values.type == 'int' else 'FP'}{values.num_bits} by {values.strategy}"
    if values.group_size is not None:
        told += ", as wide as a block" if values.group_size == block else f" of {values.group_size}"
    return told if values.symmetric else f"asymmetric {told}"
