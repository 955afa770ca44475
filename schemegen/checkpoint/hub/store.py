"""One repository in the Hub client's cache, and files that are on their way into it.

`blobs/DIGEST` holds a file, `snapshots/COMMIT/NAME` links to it, `refs/REVISION` holds a commit. What has come so far
of a file is `blobs/DIGEST.schemegen.incomplete`, always a true beginning of it, so that a later run goes on from there.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemegen.checkpoint.hub.listing import Entry
from schemegen.checkpoint.hub.names import is_commit
from schemegen.checkpoint.hub_cache import BLOBS, LOCKS, REFERENCES, SNAPSHOTS, folder_name, repo_of
from schemegen.checkpoint.index import is_plain
from schemegen.checkpoint.reading import opened
from schemegen.errors import CheckpointError
from schemegen.positional import read_into, write_at

_INCOMPLETE: Final = ".schemegen.incomplete"
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Store:
    """The cache's folder of `repo` at one commit."""

    cache: Path
    repo: str
    commit: str

    @property
    def snapshot(self) -> Path:
        """The folder that holds the model once it is whole."""
        return self._folder / SNAPSHOTS / self.commit

    @property
    def _folder(self) -> Path:
        return self.cache / folder_name(self.repo)

    def found(self, entry: Entry) -> Path | None:
        """Where the file lies, whole, whether or not the snapshot links to it."""
        places = self.snapshot / entry.name, self._blob(entry)
        return next((place for place in places if _size(place) == entry.size), None)

    def holds(self, entry: Entry) -> bool:
        """Whether the snapshot has the file already: nothing need be written then, nor be allowed to."""
        return _size(self.snapshot / entry.name) == entry.size

    def is_sound(self, entry: Entry) -> bool:
        """Whether the file in the snapshot has the digest that is listed; reads all of it."""
        hasher = entry.hasher()
        with (self.snapshot / entry.name).open("rb") as file:
            while block := file.read(_BLOCK):
                hasher.update(block)
        return hasher.hexdigest() == entry.digest

    def missing_bytes(self, entry: Entry) -> int:
        """Bytes still to download."""
        return 0 if self.found(entry) else entry.size - self.partial_bytes(entry)

    def partial_bytes(self, entry: Entry) -> int:
        """Bytes that an earlier run left of a file that is not whole."""
        size = _size(self._partial(entry)) or 0
        return size if size <= entry.size else 0

    def head(self, entry: Entry, count: int) -> bytes:
        """The first bytes of the file, at most `count`, as far as they are on disk."""
        path = self.found(entry) or self._partial(entry)
        if _size(path) is None:  # a pipe would be waited for
            return b""
        with suppress(FileNotFoundError), opened(path) as fd:
            buffer = bytearray(min(count, entry.size))
            return bytes(buffer[: read_into(fd, memoryview(buffer), 0)])
        return b""

    @contextmanager
    def partial(self, entry: Entry) -> Iterator[Partial]:
        """What has come of the file so far, open for more; the caller holds the lock."""
        path = self._partial(entry)
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise CheckpointError(f"{path} is a pipe or device, and no file; remove it")
            part = Partial(fd, os.fstat(fd).st_size)
            if part.size > entry.size:
                part.restart()
            yield part
        finally:
            os.close(fd)

    @contextmanager
    def locked(self, entry: Entry, *, wait: bool) -> Iterator[bool]:
        """Keep other processes from the same file, the Hub's client included; False where one has it and none waits."""
        from filelock import Timeout
        from huggingface_hub.utils import WeakFileLock

        path = self.cache / LOCKS / folder_name(self.repo) / f"{entry.digest}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = WeakFileLock(path, timeout=None if wait else 0.01)
        try:
            lock.__enter__()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.__exit__(None, None, None)

    def forget_begun(self, entry: Entry) -> None:
        """Throw away what has come of a file that is not whole, unless another process has it in hand."""
        with suppress(OSError):
            if self.partial_bytes(entry):
                with self.locked(entry, wait=False) as mine:
                    if mine:
                        self._partial(entry).unlink(missing_ok=True)

    def is_taken(self, entry: Entry) -> bool:
        """Whether another process has the file in hand."""
        with suppress(OSError), self.locked(entry, wait=False) as mine:
            return not mine
        return False

    def keep(self, entry: Entry) -> None:
        """A file has come whole: it becomes a blob."""
        self._partial(entry).replace(self._blob(entry))

    def link(self, entry: Entry) -> None:
        """Put a blob into the snapshot: a link or, where there are none, the file itself."""
        pointer, blob = self.snapshot / entry.name, self._blob(entry)
        if _size(pointer) == entry.size:
            return
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.unlink(missing_ok=True)
        try:
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except OSError:
            shutil.move(blob, pointer)

    def _blob(self, entry: Entry) -> Path:
        return self._folder / BLOBS / entry.digest

    def _partial(self, entry: Entry) -> Path:
        return self._blob(entry).with_name(entry.digest + _INCOMPLETE)


class Partial:
    """A file that grows. Every byte taken is on its way to the disk at once, so that a kill loses none."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self.size = size

    def blocks(self) -> Iterator[bytes]:
        """All that has come, in order."""
        for offset in range(0, self.size, _BLOCK):
            yield os.pread(self._fd, min(_BLOCK, self.size - offset), offset)

    def append(self, data: bytes) -> None:
        """Take the next bytes."""
        write_at(self._fd, [memoryview(data)], self.size)
        self.size += len(data)

    def restart(self) -> None:
        """Forget all that has come."""
        os.ftruncate(self._fd, 0)
        self.size = 0

    def settle(self) -> None:
        """Return when the disk has it."""
        os.fsync(self._fd)


def known_commit(cache: Path, repo: str, revision: str) -> str | None:
    """The commit that a branch or tag was when it was last asked for."""
    with suppress(OSError, ValueError):
        commit = _reference(cache, repo, revision).read_text(encoding="ascii").strip()
        return commit if is_commit(commit) else None
    return None


def keep_commit(cache: Path, repo: str, revision: str, commit: str) -> None:
    """Note what a branch or tag is now, as the Hub's client does, where that can be written."""
    with suppress(OSError, ValueError):
        path = _reference(cache, repo, revision)
        if known_commit(cache, repo, revision) != commit:
            path.parent.mkdir(parents=True, exist_ok=True)
            begun = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            begun.write_text(commit, encoding="ascii")
            begun.replace(path)


def known_repos(cache: Path) -> list[str]:
    """The models that the cache has something of."""
    with suppress(OSError):
        return [repo for path in cache.iterdir() if (repo := repo_of(path.name))]
    return []


def _reference(cache: Path, repo: str, revision: str) -> Path:
    if not is_plain(revision):
        raise ValueError(revision)
    return cache / folder_name(repo) / REFERENCES / revision


def _size(path: Path) -> int | None:
    """Bytes of a file, through links; None where there is none."""
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else None
    return None
