"""Chunks over worker threads: read, compute or copy, digest while hot, write at the planned place, record."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from schemegen.backends.base import Job
from schemegen.backends.guard import GuardedBackend
from schemegen.checkpoint.model import Checkpoint
from schemegen.digests import digest
from schemegen.errors import CheckpointError, OutputError
from schemegen.planner import Action, Chunk, Plan, Span, chunks_of
from schemegen.positional import MAX_JOBS, allow_open_files, as_bytes, read_into
from schemegen.progress import Progress, Silent
from schemegen.runner.buffers import Buffers
from schemegen.runner.journal import Journal
from schemegen.writer import FileSink, data_bytes, header_of

_OTHER_FILES: Final = 64
#: For each shard: (offset in the file, bytes, digest) of every run of bytes written, in any order.
Digests = dict[str, list[tuple[int, int, str]]]


@dataclass(slots=True)
class Outcome:
    """What a run did: digests of all it wrote or found written, and source bytes found done by an earlier run."""

    digests: Digests = field(default_factory=dict)
    resumed_bytes: int = 0


def run(
    plan: Plan,
    checkpoint: Checkpoint,
    backend: GuardedBackend,
    sink: FileSink,
    journal: Journal,
    *,
    scratch: Path,
    devices: tuple[str, ...] = ("cpu",),
    jobs: int = 1,
    units: Collection[int] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Carry out the plan, or the units of it with the given indexes. Safe to interrupt and to repeat."""
    return Execution(plan, checkpoint, backend, sink, journal, scratch, devices, progress or Silent()).run(jobs, units)


class Execution:
    """One run of a plan over worker threads."""

    def __init__(
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        backend: GuardedBackend,
        sink: FileSink,
        journal: Journal,
        scratch: Path,
        devices: tuple[str, ...],
        progress: Progress,
    ) -> None:
        self.plan, self.backend, self.sink, self.journal, self.progress = plan, backend, sink, journal, progress
        self.outcome = Outcome({file: [] for file in plan.files})
        allow_open_files(2 * len(plan.files) + _OTHER_FILES)
        self._sources = {file: _open(checkpoint, file) for file in plan.files}
        self._local = threading.local()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._starts: dict[str, int] = {}
        self._job = Job(
            plan, checkpoint, scratch, devices[0], devices, self.progress, lambda chunk: self._buffers.weights(chunk)
        )

    def run(self, jobs: int, units: Collection[int] | None) -> Outcome:
        """Create the shards, then work off all chunks with `jobs` threads."""
        tensors = [t for unit in self.plan.units if units is None or unit.index in units for t in unit.tensors]
        try:
            self._create_shards()
            self.backend.prepare(self._job)
            self.progress.start("quantize", sum(tensor.source.nbytes for tensor in tensors))
            self._work_off((chunk for tensor in tensors for chunk in chunks_of(tensor)), jobs)
            self.progress.finish()
        finally:
            for descriptor in self._sources.values():
                os.close(descriptor)
        return self.outcome

    @property
    def _buffers(self) -> Buffers:
        if not hasattr(self._local, "buffers"):
            self._local.buffers = Buffers(self._sources)
        found: Buffers = self._local.buffers
        return found

    def _create_shards(self) -> None:
        for file in self.plan.files:
            header = header_of(self.plan, file)
            self.sink.create(file, len(header) + data_bytes(self.plan, file))
            self._starts[file] = len(header)
            self.sink.write_at(file, 0, [as_bytes(header)])
            self.outcome.digests[file].append((0, len(header), digest([header])))

    def _work_off(self, chunks: Iterator[Chunk], jobs: int) -> None:
        jobs = min(jobs, MAX_JOBS)
        with ThreadPoolExecutor(jobs, "schemegen") as pool:
            try:
                workers = [pool.submit(self._worker, chunks) for _ in range(jobs)]
                for worker in wait(workers, return_when=FIRST_EXCEPTION).done:
                    worker.result()
            finally:
                self._stop.set()

    def _worker(self, chunks: Iterator[Chunk]) -> None:
        while not self._stop.is_set():
            with self._lock:
                chunk = next(chunks, None)
            if chunk is None:
                return
            digests = self._found_done(chunk) or self._done(chunk)
            self._account(chunk, digests)

    def _found_done(self, chunk: Chunk) -> tuple[str, ...] | None:
        """The digests of a chunk that an earlier run recorded and whose bytes are there; else None."""
        recorded = self.journal.done.get(chunk.key, ())
        if len(recorded) != len(chunk.spans):
            return None
        for span, expected in zip(chunk.spans, recorded, strict=True):
            if span.nbytes and self._digest_written(span) != expected:
                return None
        with self._lock:
            self.outcome.resumed_bytes += chunk.nbytes
        return recorded

    def _digest_written(self, span: Span) -> str:
        view = self._buffers.scratch(span.nbytes)
        got = read_into(self.sink.descriptor(span.file), view, self._starts[span.file] + span.offset)
        return digest([view[:got]])

    def _done(self, chunk: Chunk) -> tuple[str, ...]:
        """Compute or copy the chunk, write it, record it; the digests of its spans."""
        parts = self._copied(chunk) if chunk.tensor.action is Action.COPY else self._quantized(chunk)
        digests = tuple(digest([part]) for part in parts)
        for span, part in zip(chunk.spans, parts, strict=True):
            if span.nbytes:
                self.sink.write_at(span.file, self._starts[span.file] + span.offset, [part])
        self.journal.append(chunk.key, digests)
        return digests

    def _copied(self, chunk: Chunk) -> list[memoryview]:
        return [self._buffers.source_bytes(chunk)]

    def _quantized(self, chunk: Chunk) -> list[memoryview]:
        out = self._buffers.outputs(chunk)
        given = out.pop("weight_shape", None)
        self.backend.quantize_chunk(self._job, chunk, out)
        if given is not None:
            if given.size:
                given[...] = chunk.tensor.matrix_shape
            out["weight_shape"] = given
        return [as_bytes(out[piece.name.rpartition(".")[2]]) for piece in chunk.tensor.pieces]

    def _account(self, chunk: Chunk, digests: tuple[str, ...]) -> None:
        with self._lock:
            for span, found in zip(chunk.spans, digests, strict=True):
                if span.nbytes:
                    self.outcome.digests[span.file].append((self._starts[span.file] + span.offset, span.nbytes, found))
        self.progress.advance(chunk.nbytes)


def _open(checkpoint: Checkpoint, name: str) -> int:
    try:
        return os.open(checkpoint.path(name), os.O_RDONLY)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise OutputError(
                f"cannot open {name}: {error.strerror}; raise the limit (ulimit -n) and run again"
            ) from error
        raise CheckpointError(f"cannot open {name}: {error.strerror}; the source changed under the run") from error
