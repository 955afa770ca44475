"""A worker's memory: one buffer that is read into and one that is filled and written, reused for every chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from schemegen.backends.base import Weights
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Chunk, Output, Span
from schemegen.positional import as_bytes
from schemegen.runner.reading import fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Items = NDArray[np.unsignedinteger[Any]]

_ALIGNMENT = 64


class Outputs(NamedTuple):
    """Output buffers by piece suffix: of all chunks together, [1, rows, …], and chunk by chunk, [matrices, rows, …].

    They are the same memory, for one chunk the same arrays; what of a chunk is not due is empty.
    """

    whole: dict[str, Items]
    parts: list[dict[str, Items]]


class Buffers:
    """Memory of one worker thread; `sources` are open source shards by name, `allocate` gives bytes a device likes.

    It grows to the largest chunk or batch seen and no further: fresh memory is slow to touch.
    """

    def __init__(
        self,
        sources: Mapping[str, int],
        device: str = "cpu",
        allocate: Callable[[int], NDArray[np.uint8]] | None = None,
    ) -> None:
        self._sources, self._device = sources, device
        self._read = _Arena(allocate or _plain)
        self._write = _Arena(allocate or _plain)

    def source_bytes(self, chunk: Chunk) -> memoryview:
        """The chunk's bytes as they lie in the source; CheckpointError when the file ends early."""
        view = as_bytes(self._read.take(chunk.nbytes))
        self._fill(view, chunk)
        return view

    def weights(self, *chunks: Chunk) -> Weights:
        """A chunk's weights as bits [matrices, rows, columns]; of several, one behind another, [1, rows, columns]."""
        import numpy as np

        view = as_bytes(self._read.take(sum(chunk.nbytes for chunk in chunks)))
        start = 0
        for chunk in chunks:
            self._fill(view[start : start + chunk.nbytes], chunk)
            start += chunk.nbytes
        dtype = chunks[0].tensor.source.dtype
        shape = chunks[0].shape if len(chunks) == 1 else (1, -1, chunks[0].shape[2])
        return Weights(np.frombuffer(view, f"u{DTYPE_BITS[dtype] // 8}").reshape(shape), dtype, self._device)

    def outputs(self, *chunks: Chunk) -> Outputs:
        """A buffer for each piece of the chunks, which have the same pieces."""
        pieces = chunks[0].tensor.pieces
        sizes = [sum(chunk.spans[position].nbytes for chunk in chunks) for position in range(len(pieces))]
        arena = self._write.take(sum(map(_aligned, sizes)))
        outputs = Outputs({}, [{} for _ in chunks])
        start = 0
        for position, (piece, size) in enumerate(zip(pieces, sizes, strict=True)):
            items = _items(arena[start : start + size], piece)
            outputs.whole[piece.suffix] = items.reshape(1, -1, *piece.shape[-1:])
            for part, (chunk, own) in zip(outputs.parts, _divided(items, chunks, position), strict=True):
                part[piece.suffix] = _shaped(own, chunk.tensor.pieces[position], chunk.spans[position], chunk)
            start += _aligned(size)
        return outputs if len(chunks) > 1 else Outputs(outputs.parts[0], outputs.parts)

    def scratch(self, nbytes: int) -> memoryview:
        """Room for bytes read back from an output."""
        return as_bytes(self._write.take(nbytes))

    def _fill(self, view: memoryview, chunk: Chunk) -> None:
        fill(self._sources, chunk.tensor, chunk.offset, view)


class _Arena:
    """One growing block of bytes."""

    def __init__(self, allocate: Callable[[int], NDArray[np.uint8]]) -> None:
        self._allocate = allocate
        self._block: NDArray[np.uint8] | None = None

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """The first `nbytes` of the block, grown if need be; what was there is lost."""
        if self._block is None or self._block.size < nbytes:
            self._block = None
            self._block = self._allocate(nbytes)
        return self._block[:nbytes]


def _plain(nbytes: int) -> NDArray[np.uint8]:
    import numpy as np

    return np.empty(nbytes, np.uint8)


def _aligned(nbytes: int) -> int:
    return nbytes + -nbytes % _ALIGNMENT


def _items(block: NDArray[np.uint8], piece: Output) -> Items:
    import numpy as np

    return block.view(np.dtype(f"u{DTYPE_BITS[piece.dtype] // 8}"))


def _divided(items: Items, chunks: Sequence[Chunk], position: int) -> Iterator[tuple[Chunk, Items]]:
    """Each chunk with its part of a piece's items."""
    start = 0
    for chunk in chunks:
        count = chunk.spans[position].nbytes // items.itemsize
        yield chunk, items[start : start + count]
        start += count


def _shaped(items: Items, piece: Output, span: Span, chunk: Chunk) -> Items:
    """[matrices, …] of whole matrices; of a block of rows [1, rows, …], or nothing where it has none."""
    if span.nbytes == chunk.shape[0] * piece.nbytes:
        return items.reshape(-1, *piece.shape)
    return items.reshape(1, -1, *piece.shape[1:]) if span.nbytes else items
