"""Compares stored tensors with the source: kept ones byte for byte, quantized ones by rounding again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schemegen.codecs import Wrong, codec_of
from schemegen.formats import DTYPE_BITS, pieces
from schemegen.planner import Action, Chunk, Output, Plan, Span
from schemegen.scheme import Format
from schemegen.verifier.buffers import Files, Memory
from schemegen.verifier.report import Findings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]

#: Takes file, offset and bytes that were read anyway; gives how many of them it has compared with a digest.
Witness = Callable[[str, int, memoryview], int]


class Comparison:
    """Chunks of an output against the source. `starts` is where the data of each shard begins."""

    def __init__(
        self, plan: Plan, outputs: Files, sources: Files, starts: Mapping[str, int], findings: Findings
    ) -> None:
        self._plan, self._outputs, self._sources = plan, outputs, sources
        self._starts, self._findings = starts, findings

    def check(self, chunk: Chunk, memory: Memory, witness: Witness) -> int:
        """Compare one chunk; the bytes that `witness` has compared on the way."""
        source = self._sources.fill(chunk.tensor.source.file, memory.take("source", chunk.nbytes), chunk.offset)
        stored, witnessed = {}, 0
        for piece, span in zip(chunk.tensor.pieces, chunk.spans, strict=True):
            suffix = "" if chunk.tensor.action is Action.COPY else piece.suffix
            # What belongs to a whole matrix goes with its first block of rows, and the others need it too.
            needed = (
                span if span.nbytes else Span(piece.file, piece.offset + chunk.first[0] * piece.nbytes, piece.nbytes)
            )
            offset = self._starts[needed.file] + needed.offset
            stored[suffix] = self._outputs.fill(needed.file, memory.take(f"stored {suffix}", needed.nbytes), offset)
            if span.nbytes:
                witnessed += witness(span.file, offset, stored[suffix])
        first = chunk.spans[0]
        place = first.file, self._starts[first.file] + first.offset
        for fault in self._faults(chunk, source, stored):
            self._findings.add_at(*place, fault)
        return witnessed

    def _faults(self, chunk: Chunk, source: memoryview, stored: Mapping[str, memoryview]) -> Iterator[str]:
        if chunk.tensor.action is Action.COPY:
            return _kept_faults(chunk, source, stored[""])
        return _quantized_faults(chunk, self._plan.format_of(chunk.tensor), source, stored)


def _kept_faults(chunk: Chunk, source: memoryview, stored: memoryview) -> Iterator[str]:
    import numpy as np

    item = np.dtype(np.uint8 if chunk.nbytes % 8 else np.uint64)
    if not np.array_equal(np.frombuffer(source, item), np.frombuffer(stored, item)):
        differs = np.frombuffer(source, np.uint8) != np.frombuffer(stored, np.uint8)
        first = chunk.offset - chunk.tensor.source.offset + int(differs.argmax())
        yield f"tensor {chunk.tensor.name} is kept, but its byte {first} is not the source's"


def _quantized_faults(
    chunk: Chunk, format: Format, source: memoryview, stored: Mapping[str, memoryview]
) -> Iterator[str]:
    """Shapes that are not the matrix's, and at most one fault more: a scale that is no number, or a wrong code."""
    import numpy as np

    dtype = chunk.tensor.source.dtype
    weights = np.frombuffer(source, f"u{DTYPE_BITS[dtype] // 8}").reshape(chunk.shape)
    items = {piece.suffix: _items(piece, stored[piece.suffix], chunk) for piece in chunk.tensor.pieces}
    yield from _shape_faults(chunk, items.pop("weight_shape", None))
    if wrong := codec_of(format).recode(weights, dtype, items):
        yield f"{_place(chunk, format, wrong)} {wrong.fault}"


def _items(piece: Output, stored: memoryview, chunk: Chunk) -> Bits:
    """[matrices, …] of whole matrices, or [1, rows, …] of a block of rows."""
    import numpy as np

    shape = piece.shape if len(stored) == chunk.shape[0] * piece.nbytes else (-1, *piece.shape[1:])
    items = np.frombuffer(stored, f"u{DTYPE_BITS[piece.dtype] // 8}")
    return items.reshape(chunk.shape[0], *shape)


def _shape_faults(chunk: Chunk, shapes: Bits | None) -> Iterator[str]:
    import numpy as np

    if shapes is None:
        return
    for matrix in np.flatnonzero((shapes != chunk.tensor.matrix_shape).any(axis=1)):
        module = chunk.tensor.modules[chunk.first[0] + int(matrix)]
        found = shapes[matrix].view("<i8").tolist()
        yield f"{module}.weight_shape is {found}, not {list(chunk.tensor.matrix_shape)}"


def _place(chunk: Chunk, format: Format, wrong: Wrong) -> str:
    """The name of a stored tensor of the chunk and the position in it."""
    matrix, *place = wrong.place
    rows, columns = chunk.tensor.matrix_shape
    found = pieces(format, chunk.tensor.source.dtype, rows, columns)
    piece = next(piece for piece in found if piece.suffix == wrong.suffix)
    if piece.per_rows:
        place[0] += piece.rows_before(chunk.first[1])
    return f"{chunk.tensor.modules[chunk.first[0] + matrix]}.{wrong.suffix} at {place}"
