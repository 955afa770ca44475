"""Files to read from and a worker's reused memory."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from schemegen.checkpoint.reading import opened
from schemegen.errors import OutputError, VerificationError
from schemegen.positional import read_into

BLOCK: Final = 4 << 20


class Files:
    """Files by name, for reads from any thread. Each is open only while it is read: there may be thousands."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def fill(self, name: str, view: memoryview, offset: int) -> memoryview:
        """The bytes from `offset` on, in `view`; VerificationError where the file ends or the disk fails."""
        try:
            with opened(self._paths[name]) as descriptor:
                got = read_into(descriptor, view, offset)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise OutputError("too many open files; use fewer --jobs or raise the limit (ulimit -n)") from error
            raise VerificationError([f"{name} cannot be read at byte {offset}: {error.strerror}"]) from error
        if got < len(view):
            raise VerificationError([f"{name} ends at byte {offset + got}, while it is read"])
        return view


class Memory:
    """One worker's buffers by use; each grows to the most it was asked for."""

    def __init__(self) -> None:
        self._buffers: dict[str, bytearray] = {}

    def take(self, use: str, nbytes: int) -> memoryview:
        """`nbytes` of the buffer; what was there is lost."""
        buffer = self._buffers.get(use)
        if buffer is None or len(buffer) < nbytes:
            buffer = self._buffers[use] = bytearray(nbytes)
        return memoryview(buffer)[:nbytes]

    def blocks(self, files: Files, name: str, offset: int, nbytes: int) -> Iterator[memoryview]:
        """A run of bytes, block by block in one small buffer."""
        for start in range(offset, offset + nbytes, BLOCK):
            view = self.take("block", min(BLOCK, offset + nbytes - start))
            yield files.fill(name, view, start)


def spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of runs that lie one behind another."""
    offset = 0
    for nbytes in sizes:
        yield offset, nbytes
        offset += nbytes
