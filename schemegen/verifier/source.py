"""Compares stored tensors with the source: kept ones byte for byte, quantized ones by rounding again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schemegen.errors import UnsupportedError
from schemegen.formats import DTYPE_BITS, group_of, storage_of
from schemegen.kernels.floats import first_nonfinite
from schemegen.planner import Action, Chunk, Plan
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
            offset = self._starts[span.file] + span.offset
            stored[suffix] = self._outputs.fill(span.file, memory.take(f"stored {suffix}", span.nbytes), offset)
            witnessed += witness(span.file, offset, stored[suffix])
        first = chunk.spans[0]
        place = first.file, self._starts[first.file] + first.offset
        for fault in self._faults(chunk, source, stored):
            self._findings.add_at(*place, fault)
        return witnessed

    def _faults(self, chunk: Chunk, source: memoryview, stored: Mapping[str, memoryview]) -> Iterator[str]:
        if chunk.tensor.action is Action.COPY:
            return _kept_faults(chunk, source, stored[""])
        format = self._plan.format_of(chunk.tensor)
        if storage_of(format) != "pack-quantized":
            raise UnsupportedError(f"comparing storage {storage_of(format)} with a source is not offered yet")
        return _packed_faults(chunk, format, source, stored)


def _kept_faults(chunk: Chunk, source: memoryview, stored: memoryview) -> Iterator[str]:
    import numpy as np

    item = np.dtype(np.uint8 if chunk.nbytes % 8 else np.uint64)
    if not np.array_equal(np.frombuffer(source, item), np.frombuffer(stored, item)):
        differs = np.frombuffer(source, np.uint8) != np.frombuffer(stored, np.uint8)
        first = chunk.offset - chunk.tensor.source.offset + int(differs.argmax())
        yield f"tensor {chunk.tensor.name} is kept, but its byte {first} is not the source's"


def _packed_faults(chunk: Chunk, format: Format, source: memoryview, stored: Mapping[str, memoryview]) -> Iterator[str]:
    """At most one fault a piece: a shape, a scale that is no number, a code that the weight does not round to."""
    import numpy as np

    from schemegen.kernels.integers import recode_int

    dtype, rows = chunk.tensor.source.dtype, chunk.shape[0] * chunk.shape[1]
    group = group_of(format.weights, chunk.shape[2])
    bits = np.dtype(f"u{DTYPE_BITS[dtype] // 8}")
    weights = np.frombuffer(source, bits).reshape(rows, -1)
    scales = np.frombuffer(stored["weight_scale"], bits).reshape(rows, -1)
    packed = np.frombuffer(stored["weight_packed"], np.uint32).reshape(rows, -1)
    shapes = np.frombuffer(stored["weight_shape"], "<i8").reshape(-1, 2)
    for matrix in np.flatnonzero((shapes != chunk.tensor.matrix_shape).any(axis=1)):
        module = chunk.tensor.modules[chunk.first[0] + int(matrix)]
        yield f"{module}.weight_shape is {shapes[matrix].tolist()}, not {list(chunk.tensor.matrix_shape)}"
    index = first_nonfinite(scales, dtype)
    if index >= 0:
        yield f"{_place(chunk, 'weight_scale', index, scales.shape[1])} is infinite or no number"
        return
    index = recode_int(weights, dtype, format.weights.num_bits, group, packed, scales)
    if index >= 0:
        yield (
            f"{_place(chunk, 'weight_packed', index, weights.shape[1])} "
            "is not the code that the source's weight rounds to under the stored scale"
        )


def _place(chunk: Chunk, suffix: str, index: int, columns: int) -> str:
    """The name of a stored tensor of the chunk and the position in it of a flat index over the chunk's rows."""
    row, column = divmod(index, columns)
    matrix, row = divmod(row, chunk.shape[1])
    return f"{chunk.tensor.modules[chunk.first[0] + matrix]}.{suffix} at [{chunk.first[1] + row}, {column}]"
