"""A worker's memory: one buffer that is read into and one that is filled and written, reused for every chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemegen.backends.base import Weights
from schemegen.errors import CheckpointError
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Chunk, Output, Span
from schemegen.planner.chunks import is_by_row
from schemegen.positional import as_bytes, read_into

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALIGNMENT = 64


class Buffers:
    """Memory of one worker thread; `sources` are open source shards by name.

    It grows to the largest chunk seen and no further: fresh memory is slow to touch.
    """

    def __init__(self, sources: Mapping[str, int]) -> None:
        self._sources = sources
        self._read = _Arena()
        self._write = _Arena()

    def source_bytes(self, chunk: Chunk) -> memoryview:
        """The chunk's bytes as they lie in the source; CheckpointError when the file ends early."""
        view = as_bytes(self._read.take(chunk.nbytes))
        file = chunk.tensor.source.file
        try:
            got = read_into(self._sources[file], view, chunk.offset)
        except OSError as error:
            raise CheckpointError(
                f"cannot read {file}: {error.strerror}; run the same command again to go on"
            ) from error
        if got < chunk.nbytes:
            raise CheckpointError(
                f"{file} ends early, within tensor {chunk.tensor.name}; the source changed under the run"
            )
        return view

    def weights(self, chunk: Chunk) -> Weights:
        """The chunk's weights as bits [matrices, rows, columns]."""
        import numpy as np

        dtype = chunk.tensor.source.dtype
        unsigned = np.dtype(f"u{DTYPE_BITS[dtype] // 8}")
        return Weights(np.frombuffer(self.source_bytes(chunk), unsigned).reshape(chunk.shape), dtype)

    def outputs(self, chunk: Chunk) -> dict[str, NDArray[np.unsignedinteger[Any]]]:
        """A buffer for each piece of the chunk by suffix, [matrices, …], empty where nothing of it is due."""
        sizes = [span.nbytes + -span.nbytes % _ALIGNMENT for span in chunk.spans]
        arena = self._write.take(sum(sizes))
        found = {}
        for piece, span, start in zip(chunk.tensor.pieces, chunk.spans, _starts(sizes), strict=True):
            found[piece.name.rpartition(".")[2]] = _shaped(arena[start : start + span.nbytes], piece, span, chunk)
        return found

    def scratch(self, nbytes: int) -> memoryview:
        """Room for bytes read back from an output."""
        return as_bytes(self._write.take(nbytes))


class _Arena:
    """One growing block of bytes."""

    def __init__(self) -> None:
        self._block: NDArray[np.uint8] | None = None

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """The first `nbytes` of the block, grown if need be; what was there is lost."""
        import numpy as np

        if self._block is None or self._block.size < nbytes:
            self._block = np.empty(nbytes, np.uint8)
        return self._block[:nbytes]


def _starts(sizes: list[int]) -> list[int]:
    return [sum(sizes[:position]) for position in range(len(sizes))]


def _shaped(block: NDArray[np.uint8], piece: Output, span: Span, chunk: Chunk) -> NDArray[np.unsignedinteger[Any]]:
    import numpy as np

    items = block.view(np.dtype(f"u{DTYPE_BITS[piece.dtype] // 8}"))
    count, rows, _ = chunk.shape
    if is_by_row(piece, chunk.tensor.matrix_shape[0]):
        return items.reshape(count, rows, -1)
    return items.reshape(-1, *piece.shape) if span.nbytes else items
