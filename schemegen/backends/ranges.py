"""Weights whose range no scale of their dtype can span: the source's fault, whoever quantizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schemegen.backends.base import position_of
from schemegen.errors import CheckpointError
from schemegen.formats import group_of
from schemegen.kernels.floats import FLOAT_BITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from schemegen.backends.base import Job
    from schemegen.planner import Chunk

    Bits = NDArray[np.unsignedinteger[Any]]


def wide_range(job: Job, chunk: Chunk, group: int) -> CheckpointError | None:
    """What to raise where a scale with a zero point is infinite because its weights' range is; None for any other.

    `group` counts the chunk's groups, whose weights are read again.
    """
    if all(piece.suffix != "weight_zero_point" for piece in chunk.tensor.pieces):
        return None
    dtype, (rows, columns) = chunk.tensor.source.dtype, chunk.tensor.matrix_shape
    size = group_of(job.plan.format_of(chunk.tensor).weights, columns)
    if not _is_infinite(job.read(chunk).bits.reshape(-1, size)[group], dtype):
        return None
    matrix, row = chunk.first
    place = position_of(chunk.tensor, (matrix * rows + row) * columns + group * size)
    return CheckpointError(
        f"tensor {chunk.tensor.name}: the {size} weights from {place} on span more than {dtype} can hold, "
        "so they have no scale with a zero point; take a symmetric format, or keep the tensor with a policy"
    )


def _is_infinite(weights: Bits, dtype: str) -> bool:
    """Whether highest less lowest, or zero if it is beyond them, rounds to infinity in the dtype."""
    import numpy as np

    from schemegen.kernels.arrays import narrowed, widened

    values = widened(weights, dtype)
    with np.errstate(over="ignore"):
        span = np.maximum(values.max(keepdims=True), np.float32(0)) - np.minimum(values.min(keepdims=True), 0)
        return bool(narrowed(span.astype(np.float32), dtype)[0] >= FLOAT_BITS[dtype].infinity)
