"""Runs a plan: creates the shards, then has workers on one or more devices work off its chunks."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from schemegen.backends.base import Job
from schemegen.backends.faults import device_faults
from schemegen.backends.guard import GuardedBackend
from schemegen.checkpoint.model import Checkpoint
from schemegen.digests import digest
from schemegen.errors import CheckpointError, OutputError
from schemegen.planner import Plan, chunks_of
from schemegen.positional import allow_open_files, as_bytes
from schemegen.progress import Progress, Silent
from schemegen.runner.feed import Feed
from schemegen.runner.journal import Journal
from schemegen.runner.lanes import lanes
from schemegen.runner.worker import Memory, Outcome, Site, work
from schemegen.writer import FileSink, data_bytes, header_of

__all__ = ["Outcome", "run"]

_OTHER_FILES: Final = 64


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
    """One run of a plan."""

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
        self.plan, self.backend, self.sink, self.journal = plan, backend, sink, journal
        self.outcome = Outcome({file: [] for file in plan.files})
        allow_open_files(2 * len(plan.files) + _OTHER_FILES)
        self._sources = {file: _open(checkpoint, file) for file in plan.files}
        self._memory = Memory(self._sources)
        self._starts: dict[str, int] = {}
        self._job = Job(
            plan,
            checkpoint,
            scratch,
            devices[0],
            devices,
            progress,
            lambda *chunks: self._memory.buffers.weights(*chunks),
        )

    def run(self, jobs: int, units: Collection[int] | None) -> Outcome:
        """Create the shards, then work off all chunks with `jobs` threads."""
        tensors = [t for unit in self.plan.units if units is None or unit.index in units for t in unit.tensors]
        try:
            self._create_shards()
            self.backend.prepare(self._job)
            self._job.progress.start("quantize", sum(tensor.source.nbytes for tensor in tensors))
            self._work_off(Feed(chunk for tensor in tensors for chunk in chunks_of(tensor)), jobs)
            self._job.progress.finish()
        finally:
            for descriptor in self._sources.values():
                os.close(descriptor)
        return self.outcome

    def _create_shards(self) -> None:
        for file in self.plan.files:
            header = header_of(self.plan, file)
            self.sink.create(file, len(header) + data_bytes(self.plan, file))
            self._starts[file] = len(header)
            self.sink.write_at(file, 0, [as_bytes(header)])
            self.outcome.digests[file].append((0, len(header), digest([header])))

    def _work_off(self, feed: Feed, jobs: int) -> None:
        site = Site(
            self.backend,
            self.sink,
            self.journal,
            self._sources,
            self._starts,
            self._memory,
            self._job,
            feed,
            self.outcome,
        )
        with device_faults(self._job):
            places = lanes(self._job.devices, jobs)
        with ThreadPoolExecutor(len(places), "schemegen") as pool:
            try:
                workers = [pool.submit(work, site, lane) for lane in places]
                for worker in wait(workers, return_when=FIRST_EXCEPTION).done:
                    worker.result()
            finally:
                feed.stop()


def _open(checkpoint: Checkpoint, name: str) -> int:
    try:
        return os.open(checkpoint.path(name), os.O_RDONLY)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise OutputError(
                f"cannot open {name}: {error.strerror}; raise the limit (ulimit -n) and run again"
            ) from error
        raise CheckpointError(f"cannot open {name}: {error.strerror}; the source changed under the run") from error
