"""A worker: takes chunks, reads, computes or copies, digests while hot, writes at the planned place, records."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from schemegen.backends.base import Batch, Job, Weights
from schemegen.backends.faults import device_faults
from schemegen.backends.guard import GuardedBackend
from schemegen.digests import digest
from schemegen.planner import Action, Chunk, Span
from schemegen.positional import as_bytes, read_into
from schemegen.runner.buffers import Buffers
from schemegen.runner.feed import Feed
from schemegen.runner.journal import Journal
from schemegen.runner.lanes import Lane
from schemegen.runner.magnitudes import Magnitudes
from schemegen.writer import FileSink

if TYPE_CHECKING:
    from schemegen.runner.buffers import Items

#: For each shard: (offset in the file, bytes, digest) of every run of bytes written, in any order.
Digests = dict[str, list[tuple[int, int, str]]]


@dataclass(slots=True)
class Outcome:
    """What a run did: digests of all it wrote or found written, and source bytes found done by an earlier run."""

    digests: Digests = field(default_factory=dict)
    resumed_bytes: int = 0


class Memory(threading.local):
    """Each thread's buffers for the open `sources`: a worker's own, or plain ones for whoever else reads."""

    def __init__(self, sources: Mapping[str, int], magnitudes: Magnitudes) -> None:
        self.sources = sources
        self.buffers = Buffers(sources)
        self._magnitudes = magnitudes

    def read(self, *chunks: Chunk) -> Weights:
        """Read into the calling thread's buffer; what a scale is made from beyond it comes along."""
        weights = self.buffers.weights(*chunks)
        return replace(weights, shared=self._magnitudes.of(chunks[0], weights.bits))


@dataclass(frozen=True, slots=True)
class Site:
    """What the workers of a run share; `starts` is where the data of each output shard begins."""

    backend: GuardedBackend
    sink: FileSink
    journal: Journal
    memory: Memory
    job: Job
    feed: Feed
    starts: dict[str, int] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Outcome)
    lock: threading.Lock = field(default_factory=threading.Lock)


def work(site: Site, lane: Lane) -> None:
    """Work off chunks on a lane until none is left."""
    job = replace(site.job, device=lane.device)
    with device_faults(job), lane.entered() as allocate:
        site.memory.buffers = Buffers(site.memory.sources, lane.device, allocate)
        worker = Worker(site, job)
        while chunks := site.feed.take(lane.batch_bytes):
            worker.do(chunks)


class Worker:
    """One thread's part of a run."""

    def __init__(self, site: Site, job: Job) -> None:
        self._site, self._job, self._buffers = site, job, site.memory.buffers

    def do(self, chunks: tuple[Chunk, ...]) -> None:
        """Make the chunks, which are one or go together, but for those that an earlier run has finished."""
        due = tuple(chunk for chunk in chunks if not self._found_done(chunk))
        if not due:
            return
        for chunk, parts in zip(due, self._made(due), strict=True):
            digests = tuple(digest([part]) for part in parts)
            for span, part in zip(chunk.spans, parts, strict=True):
                if span.nbytes:
                    self._site.sink.write_at(span.file, self._site.starts[span.file] + span.offset, [part])
            self._site.journal.append(chunk.key, digests)
            self._account(chunk, digests)

    def _found_done(self, chunk: Chunk) -> bool:
        """Whether an earlier run recorded the chunk and its bytes are there; if so it is accounted for."""
        recorded = self._site.journal.done.get(chunk.key, ())
        if len(recorded) != len(chunk.spans):
            return False
        for span, expected in zip(chunk.spans, recorded, strict=True):
            if span.nbytes and self._digest_written(span) != expected:
                return False
        self._account(chunk, recorded, resumed=chunk.nbytes)
        return True

    def _digest_written(self, span: Span) -> str:
        view = self._buffers.scratch(span.nbytes)
        got = read_into(self._site.sink.descriptor(span.file), view, self._site.starts[span.file] + span.offset)
        return digest([view[:got]])

    def _made(self, chunks: tuple[Chunk, ...]) -> list[list[memoryview]]:
        """The bytes of every piece of every chunk."""
        if chunks[0].tensor.action is Action.COPY:
            return [[self._buffers.source_bytes(chunk)] for chunk in chunks]
        whole, parts = self._buffers.outputs(*chunks)
        given = [part.pop("weight_shape", None) for part in parts]
        whole.pop("weight_shape", None)
        if self._job.device == "cpu":
            for chunk, part in zip(chunks, parts, strict=True):
                self._site.backend.quantize_chunk(self._job, chunk, part)
        else:
            self._site.backend.quantize_batch(self._job, Batch(chunks, whole, tuple(parts)))
        for chunk, part, shape in zip(chunks, parts, given, strict=True):
            if shape is not None:
                part["weight_shape"] = _filled(shape, chunk.tensor.matrix_shape)
        return [_bytes_of(chunk, part) for chunk, part in zip(chunks, parts, strict=True)]

    def _account(self, chunk: Chunk, digests: tuple[str, ...], resumed: int = 0) -> None:
        site = self._site
        with site.lock:
            site.outcome.resumed_bytes += resumed
            for span, found in zip(chunk.spans, digests, strict=True):
                if span.nbytes:
                    site.outcome.digests[span.file].append((site.starts[span.file] + span.offset, span.nbytes, found))
        self._job.progress.advance(chunk.nbytes)


def _filled(shapes: Items, shape: Sequence[int]) -> Items:
    if shapes.size:
        shapes[...] = shape
    return shapes


def _bytes_of(chunk: Chunk, part: Mapping[str, Items]) -> list[memoryview]:
    return [as_bytes(part[piece.suffix]) for piece in chunk.tensor.pieces]
