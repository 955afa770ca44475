"""Reads and writes at a file position that finish what they start, with and without vector calls; faults of writes."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from schemegen.errors import OutputError

#: More threads than this bring nothing, and a system may refuse them.
MAX_JOBS: Final = 64
HAS_VECTOR_IO: Final = hasattr(os, "preadv") and hasattr(os, "pwritev")
_SEEK = threading.Lock()


def read_into(fd: int, buffer: memoryview, offset: int) -> int:
    """Fill `buffer` (bytes) from `offset` of `fd`; the count read is short only at the end of the file."""
    done = 0
    while done < len(buffer):
        step = _read_some(fd, buffer[done:], offset + done)
        if step == 0:
            break
        done += step
    return done


def write_at(fd: int, parts: Iterable[memoryview], offset: int) -> int:
    """Write the byte buffers one after another from `offset` of `fd`; returns the bytes written."""
    start = offset
    for part in parts:
        while len(part):
            step = _write_some(fd, part, offset)
            if step == 0:
                raise OSError(errno.EIO, "the disk takes no bytes")
            part, offset = part[step:], offset + step
    return offset - start


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into one OutputError that names the file and how to go on."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}; what was written is kept, so make room or rights "
            "and run the same command again to go on"
        ) from error


def allow_open_files(count: int) -> None:
    """Raise this process's limit on open files to `count` where it is lower and may be raised."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def as_bytes(buffer: object) -> memoryview:
    """A flat byte view of a contiguous array or bytes object, without a copy."""
    return memoryview(buffer).cast("B")  # type: ignore[arg-type]


def _read_some(fd: int, view: memoryview, offset: int) -> int:
    if HAS_VECTOR_IO:
        return os.preadv(fd, [view], offset)
    with _SEEK:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.readv(fd, [view])


def _write_some(fd: int, view: memoryview, offset: int) -> int:
    if HAS_VECTOR_IO:
        return os.pwritev(fd, [view], offset)
    with _SEEK:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.writev(fd, [view])


def sync_path(path: Path) -> None:
    """Return when the disk has a file's bytes, or a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
