"""A unit cut into chunks: what is read, computed and written in one go, and digested as one.

The cut depends on the plan alone, so digests never depend on workers, order or interruption.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

from schemegen.planner.model import Action, Output, PlannedTensor

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


def chunks_of(tensor: PlannedTensor, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """The chunks of one tensor, in source order."""
    if tensor.action is Action.COPY:
        return _copies(tensor, chunk_bytes)
    rows, _ = tensor.matrix_shape
    matrix_bytes = tensor.source.nbytes // tensor.matrices
    if matrix_bytes <= chunk_bytes:
        return _matrices(tensor, chunk_bytes // matrix_bytes)
    return _row_blocks(tensor, max(1, chunk_bytes * rows // matrix_bytes))


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


def _row_blocks(tensor: PlannedTensor, step: int) -> Iterator[Chunk]:
    """Blocks of at most `step` rows of one matrix after another."""
    rows, columns = tensor.matrix_shape
    row_bytes = tensor.source.nbytes // tensor.matrices // rows
    for matrix in range(tensor.matrices):
        for first in range(0, rows, step):
            count = min(step, rows - first)
            start = (matrix * rows + first) * row_bytes
            yield Chunk(
                f"{tensor.name}@{start}",
                tensor,
                tensor.source.offset + start,
                count * row_bytes,
                (1, count, columns),
                (matrix, first),
                tuple(_row_span(piece, matrix, first, count, rows) for piece in tensor.pieces),
            )


def _row_span(piece: Output, matrix: int, first: int, count: int, rows: int) -> Span:
    """The bytes of a piece that belong to a block of rows; a piece without rows goes with the first block."""
    start = piece.offset + matrix * piece.nbytes
    if is_by_row(piece, rows):
        row_bytes = piece.nbytes // rows
        return Span(piece.file, start + first * row_bytes, count * row_bytes)
    return Span(piece.file, start, 0 if first else piece.nbytes)


def is_by_row(piece: Output, rows: int) -> bool:
    """Whether a piece has one row for each row of its matrix."""
    return len(piece.shape) == 2 and piece.shape[0] == rows and prod(piece.shape) > 0
