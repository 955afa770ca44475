"""The chunks still to do, handed out to workers: one by one, or as many as a device takes in one go."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

from schemegen.planner import Chunk


class Feed:
    """Chunks in plan order, each handed out once, to any thread."""

    def __init__(self, chunks: Iterator[Chunk], batched: Collection[str] = ()) -> None:
        """`batched` are the formats whose chunks go together: no row of theirs depends on another."""
        self._chunks, self._batched = chunks, batched
        self._next = next(chunks, None)
        self._lock = threading.Lock()

    def take(self, most_bytes: int) -> tuple[Chunk, ...]:
        """The next chunk and those after it that go with it, up to so many source bytes; none at the end."""
        with self._lock:
            taken: list[Chunk] = []
            room = most_bytes
            while (chunk := self._next) is not None and (not taken or self._fits(taken[0], chunk, room)):
                taken.append(chunk)
                room -= chunk.nbytes
                self._next = next(self._chunks, None)
            return tuple(taken)

    def _fits(self, first: Chunk, chunk: Chunk, room: int) -> bool:
        return chunk.nbytes <= room and first.tensor.format in self._batched and _kind(first) == _kind(chunk)

    def stop(self) -> None:
        """Hand out no more."""
        with self._lock:
            self._chunks, self._next = iter(()), None


def _kind(chunk: Chunk) -> tuple[object, ...]:
    """What the chunks of a batch have in common: their rows are one matrix's."""
    return chunk.tensor.format, chunk.tensor.source.dtype, chunk.shape[2]
