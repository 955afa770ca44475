"""Brings bytes of one file from the Hub: its header, or all of it. What breaks off goes on where it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from schemegen.checkpoint.headers import FIRST_BYTES, header_bytes
from schemegen.checkpoint.hub import retries
from schemegen.checkpoint.hub.client import streamed
from schemegen.checkpoint.hub.faults import Asked, in_one_sentence
from schemegen.checkpoint.hub.listing import Entry
from schemegen.checkpoint.hub.parallel import Stopped
from schemegen.checkpoint.hub.store import Partial, Store
from schemegen.errors import CheckpointError

MOST_BYTES: Final = 1 << 35
"""What is asked for at once: the Hub sends no answer above 50 GB."""
GUESS_BYTES: Final = 1 << 16
"""What is asked for first of a header: more than most are, and soon there."""
Advance = Callable[[int], None]


class Receiver(Protocol):
    """Where the bytes of a file go."""

    @property
    def size(self) -> int:
        """Bytes that have come."""

    def append(self, data: bytes) -> None:
        """Take the next bytes."""

    def restart(self) -> None:
        """Forget all that has come."""


class Memory:
    """The beginning of a file that another process has in hand."""

    def __init__(self) -> None:
        self.data = b""

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return len(self.data)

    def append(self, data: bytes) -> None:
        """Take the next bytes."""
        self.data += data

    def restart(self) -> None:
        """Forget all that has come."""
        self.data = b""


class Hashed:
    """A file on disk and the digest of what has come of it, by an earlier run too."""

    def __init__(self, part: Partial, entry: Entry) -> None:
        self._part, self._entry = part, entry
        self._hasher = entry.hasher()
        for block in part.blocks():
            self._hasher.update(block)

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self._part.size

    @property
    def is_sound(self) -> bool:
        """Whether what has come is what was listed."""
        return self._hasher.hexdigest() == self._entry.digest

    def append(self, data: bytes) -> None:
        """Take the next bytes."""
        self._part.append(data)
        self._hasher.update(data)

    def restart(self) -> None:
        """Forget all that has come."""
        self._part.restart()
        self._hasher = self._entry.hasher()


@dataclass(frozen=True, slots=True)
class Transfer:
    """The way of one file from the Hub; `advance` is told of bytes that come and, below zero, of bytes thrown away."""

    store: Store
    entry: Entry
    stop: threading.Event
    advance: Advance = lambda _: None
    is_offline: bool = False

    def head(self) -> bytes:
        """A safetensors file's header, length word included; what the file begins with where that is no header.

        What an earlier run left and is no header is thrown away, unless `is_offline`: it may be a proxy's page.
        """
        with in_one_sentence(self._asked):
            is_left = not self.is_offline and self.store.partial_bytes(self.entry) > 0
            begin, is_header = self._header()
            if is_left and not is_header:
                self.store.forget_begun(self.entry)
                begin, _ = self._header()
            return begin

    def _header(self) -> tuple[bytes, bool]:
        """The header, or what stands in its place, and whether it may be one."""
        begin = self._beginning(GUESS_BYTES)
        try:
            count = header_bytes(begin[:FIRST_BYTES], self.entry.size, self.entry.name)
        except CheckpointError:  # whoever needs this file will find the same
            return begin, False
        return self._beginning(count)[:count], True

    def whole(self) -> None:
        """Have the file in the snapshot, its bytes those that were listed."""
        if self.store.holds(self.entry):
            return
        missing = self.store.missing_bytes(self.entry)
        with in_one_sentence(self._asked), self.store.locked(self.entry, wait=True):
            if brought := missing - self.store.missing_bytes(self.entry):  # by another process in the meantime
                self.advance(brought)
            if self.store.found(self.entry) is None and not (self._arrives() or self._arrives()):
                raise CheckpointError(f"{self._name} came with other bytes than the Hub lists; {_HELP}")
            self.store.link(self.entry)

    def _beginning(self, count: int) -> bytes:
        """The first `count` bytes; they stay on disk, and a download of the whole file goes on from them."""
        end = min(count, self.entry.size)
        if len(found := self.store.head(self.entry, end)) == end:
            return found
        with self.store.locked(self.entry, wait=False) as mine:
            if not mine:
                self._grow(memory := Memory(), end)
                return memory.data
            with self.store.partial(self.entry) as part:
                self._grow(part, end)
                part.settle()
            return self.store.head(self.entry, end)

    def _arrives(self) -> bool:
        """Whether the file came whole and sound; if not, what came is thrown away."""
        with self.store.partial(self.entry) as part:
            hashed = Hashed(part, self.entry)
            self._grow(hashed, self.entry.size)
            if hashed.is_sound:
                part.settle()
                self.store.keep(self.entry)
                return True
            self._drop(hashed)
            return False

    def _grow(self, part: Receiver, end: int) -> None:
        """Take bytes until there are `end`, again and again while that brings more, or may do so in a moment."""
        waits = iter(retries.WAITS)
        while part.size < end:
            before = part.size
            try:
                self._receive(part, end)
                if part.size <= before:
                    raise CheckpointError(f"the Hub sends nothing of {self._name}; {_HELP}")
            except Exception as error:
                waits = iter(retries.WAITS) if part.size > before else waits
                retries.wait_after(error, waits, self.stop)

    def _receive(self, part: Receiver, end: int) -> None:
        """One request's worth."""
        until = min(end, part.size + MOST_BYTES)
        with streamed(self.store.repo, self.store.commit, self.entry.name, part.size, until) as answer:
            if answer.total not in (None, self.entry.size) or answer.start not in (0, part.size):
                raise self._changed()
            if answer.start != part.size:
                self._drop(part)
            for chunk in answer.chunks:
                if self.stop.is_set():
                    raise Stopped
                if part.size + len(chunk) > self.entry.size:
                    self._drop(part)
                    raise self._changed()
                wanted = chunk[: end - part.size]
                part.append(wanted)
                self.advance(len(wanted))
                if part.size == end:
                    return
            if answer.is_vague:
                self._drop(part)
                raise self._changed()

    def _drop(self, part: Receiver) -> None:
        self.advance(-part.size)
        part.restart()

    @property
    def _asked(self) -> Asked:
        return Asked(self.store.repo, self.store.commit, self.entry.name)

    @property
    def _name(self) -> str:
        return f"{self.entry.name} of {self.store.repo}"

    def _changed(self) -> CheckpointError:
        return CheckpointError(
            f"{self._name} is listed with {self.entry.size:,} bytes, but the Hub sends a file of another size; {_HELP}"
        )


_HELP: Final = "run the same command again; if that does not help, check HF_ENDPOINT and what stands between"
