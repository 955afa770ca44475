"""Output shards: the header that the plan implies, and a sink that takes bytes at planned places in any order."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from schemegen.planner import Plan
from schemegen.positional import write_at, writing

_ALIGNMENT: Final = 8
_FLUSH_SECONDS: Final = 0.1


def header_of(plan: Plan, file: str) -> bytes:
    """The bytes before a shard's data section: length, JSON header with `format: pt`, padding to 8."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for output in plan.outputs[file]:
        span = [output.offset, output.offset + output.nbytes]
        entries[output.name] = {"dtype": output.dtype, "shape": output.shape, "data_offsets": span}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def data_bytes(plan: Plan, file: str) -> int:
    """Bytes of a shard's data section."""
    return sum(output.nbytes for output in plan.outputs[file])


class Sink(Protocol):
    """Where output bytes go. Offsets count from the start of the file; any order, any thread."""

    def create(self, file: str, size: int) -> None:
        """Make `file` with its full length; bytes already there stay."""

    def write_at(self, file: str, offset: int, parts: Iterable[memoryview]) -> None:
        """Write the byte buffers one after another from `offset`."""

    def commit(self) -> None:
        """Make all that was written durable."""

    def close(self) -> None:
        """Let go of every file; what was written stays."""


class FileSink:
    """A Sink that is a folder. Bytes go to the disk while more are computed, so that `commit` finds little left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, int] = {}
        self._flusher = _Flusher(self._open)

    def create(self, file: str, size: int) -> None:
        """Make or open `file` at exactly `size` bytes."""
        path = self.folder / file
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            self._open[file] = descriptor
            os.ftruncate(descriptor, size)
        self._flusher.start()

    def write_at(self, file: str, offset: int, parts: Iterable[memoryview]) -> None:
        """Write the byte buffers one after another from `offset`; OutputError when the disk is full."""
        with writing(self.folder / file):
            write_at(self._open[file], parts, offset)

    def descriptor(self, file: str) -> int:
        """The open file, for reading back what an earlier run wrote."""
        return self._open[file]

    def commit(self) -> None:
        """Flush every file to the disk; OutputError also for what failed on the way."""
        self._flusher.stop()
        for file, descriptor in self._open.items():
            with writing(self.folder / file):
                os.fsync(descriptor)
        with writing(self.folder):
            self._flusher.raise_fault()

    def close(self) -> None:
        """Close every file."""
        self._flusher.stop()
        while self._open:
            os.close(self._open.popitem()[1])


class _Flusher:
    """A thread that flushes open files again and again. A fault is kept: the system tells it only once."""

    def __init__(self, descriptors: Mapping[str, int]) -> None:
        self._descriptors = descriptors
        self._fault: OSError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="schemegen-flush", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        while not self._stop.wait(_FLUSH_SECONDS):
            for descriptor in list(self._descriptors.values()):
                try:
                    os.fsync(descriptor)
                except OSError as error:
                    self._fault = error
                    return
