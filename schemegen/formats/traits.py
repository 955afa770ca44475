"""How a format's matrices may be cut, and what of other matrices their scales depend on."""

from __future__ import annotations

from enum import StrEnum
from math import lcm

from schemegen.formats.pieces import pieces
from schemegen.formats.storage import is_searched
from schemegen.scheme import Format


class Shared(StrEnum):
    """Over what the largest magnitude is taken that a scale is made from: one matrix, or the layer it is fused into."""

    MATRIX = "matrix"
    FUSED = "fused"


def shared_of(format: Format) -> Shared | None:
    """What a matrix's scales need to know beyond the rows at hand, or None."""
    strategies = {"tensor": Shared.MATRIX, "tensor_group": Shared.FUSED}
    return strategies.get(format.weights.strategy)


def row_step(format: Format, dtype: str, rows: int, columns: int) -> int:
    """How many rows of a matrix must stay together: they share a scale or a word. All `rows` for a search over all."""
    if is_searched(format.weights):
        return rows
    return lcm(*(piece.per_rows for piece in pieces(format, dtype, rows, columns) if piece.per_rows))


def are_rows_alone(format: Format) -> bool:
    """Whether no row depends on another, so that those of several matrices may be computed as one's."""
    weights = format.weights
    apart = weights.strategy in ("channel", "group") and not is_searched(weights)
    return apart and weights.symmetric
