"""A unit cut into chunks: what is read, computed and written in one go, and digested as one.

The cut depends on the plan alone, so digests never depend on workers, order or interruption.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from schemegen.formats import Piece, pieces, row_step
from schemegen.planner.model import Plan
from schemegen.planner.tensors import Output, PlannedTensor
from schemegen.scheme import Format

#: Source bytes of a chunk: small enough to stay in cache between read, arithmetic and digest.
CHUNK_BYTES: Final = 8 << 20


class Span(NamedTuple):
    """A run of bytes in the data section of an output shard."""

    file: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of one tensor that is read, computed and written in one go.

    `key` names it within the plan. `offset` and `nbytes` are what is read from the tensor's source shard. `shape` is
    [matrices, rows, columns] of what was read: whole matrices or a block of rows of one; a copy has none.
    `first` says how many matrices and rows of that matrix come before. `spans` are written, one a piece.
    """

    key: str
    tensor: PlannedTensor
    offset: int
    nbytes: int
    shape: tuple[int, int, int]
    first: tuple[int, int]
    spans: tuple[Span, ...]


def plan_chunks(plan: Plan, tensor: PlannedTensor) -> Iterator[Chunk]:
    """The chunks of one tensor of a plan, in source order."""
    return chunks_of(tensor, None if tensor.format is None else plan.format_of(tensor), CHUNK_BYTES)


def chunks_of(tensor: PlannedTensor, format: Format | None, chunk_bytes: int) -> Iterator[Chunk]:
    """The chunks of one tensor, in source order; `format` is what it is quantized to."""
    if format is None:
        return _copies(tensor, chunk_bytes)
    rows, columns = tensor.matrix_shape
    matrix_bytes = tensor.source.nbytes // tensor.matrices
    if matrix_bytes <= chunk_bytes:
        return _matrices(tensor, chunk_bytes // matrix_bytes)
    together = row_step(format, tensor.source.dtype, rows, columns)
    most = chunk_bytes * rows // matrix_bytes
    return _row_blocks(tensor, format, max(together, most - most % together))


def _copies(tensor: PlannedTensor, chunk_bytes: int) -> Iterator[Chunk]:
    (output,) = tensor.outputs
    for start in range(0, tensor.source.nbytes, chunk_bytes):
        nbytes = min(chunk_bytes, tensor.source.nbytes - start)
        span = Span(output.file, output.offset + start, nbytes)
        yield Chunk(f"{tensor.name}@{start}", tensor, tensor.source.offset + start, nbytes, (0, 0, 0), (0, 0), (span,))


def _matrices(tensor: PlannedTensor, step: int) -> Iterator[Chunk]:
    """Whole matrices, `step` at a time."""
    rows, columns = tensor.matrix_shape
    matrix_bytes = tensor.source.nbytes // tensor.matrices
    for first in range(0, tensor.matrices, step):
        count = min(step, tensor.matrices - first)
        spans = tuple(
            Span(piece.file, piece.offset + first * piece.nbytes, count * piece.nbytes) for piece in tensor.pieces
        )
        start = first * matrix_bytes
        yield Chunk(
            f"{tensor.name}@{start}",
            tensor,
            tensor.source.offset + start,
            count * matrix_bytes,
            (count, rows, columns),
            (first, 0),
            spans,
        )


def _row_blocks(tensor: PlannedTensor, format: Format, step: int) -> Iterator[Chunk]:
    """Blocks of at most `step` rows of one matrix after another."""
    rows, columns = tensor.matrix_shape
    row_bytes = tensor.source.nbytes // tensor.matrices // rows
    stored = tuple(zip(pieces(format, tensor.source.dtype, rows, columns), tensor.pieces, strict=True))
    for matrix in range(tensor.matrices):
        for first in range(0, rows, step):
            stop = min(first + step, rows)
            start = (matrix * rows + first) * row_bytes
            yield Chunk(
                f"{tensor.name}@{start}",
                tensor,
                tensor.source.offset + start,
                (stop - first) * row_bytes,
                (1, stop - first, columns),
                (matrix, first),
                tuple(_row_span(piece, output, matrix, first, stop) for piece, output in stored),
            )


def _row_span(piece: Piece, output: Output, matrix: int, first: int, stop: int) -> Span:
    """The bytes of a piece that belong to rows `first` to `stop`; a piece of the whole goes with the first block."""
    start = output.offset + matrix * output.nbytes
    if not piece.per_rows:
        return Span(output.file, start, 0 if first else output.nbytes)
    before, after = piece.rows_before(first), piece.rows_before(stop)
    row_bytes = output.nbytes // piece.shape[0]
    return Span(output.file, start + before * row_bytes, (after - before) * row_bytes)
