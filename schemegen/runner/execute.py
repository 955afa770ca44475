"""Runs a plan: creates the shards, then has workers on one or more devices work off its chunks."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from schemegen.backends.base import Job
from schemegen.backends.faults import device_faults
from schemegen.backends.guard import GuardedBackend
from schemegen.checkpoint.model import Checkpoint
from schemegen.digests import digest
from schemegen.errors import CheckpointError, OutputError
from schemegen.formats import are_rows_alone
from schemegen.planner import Plan, plan_chunks
from schemegen.positional import allow_open_files, as_bytes
from schemegen.progress import Progress, Silent
from schemegen.runner.feed import Feed
from schemegen.runner.journal import Journal
from schemegen.runner.lanes import lanes
from schemegen.runner.magnitudes import Magnitudes
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
    tensors = [t for unit in plan.units if units is None or unit.index in units for t in unit.tensors]
    with ExitStack() as opened:
        sources = _opened(plan, checkpoint, opened)
        memory = Memory(sources, Magnitudes(plan, sources))
        job = Job(plan, checkpoint, scratch, devices[0], devices, progress or Silent(), memory.read)
        chunks = (chunk for tensor in tensors for chunk in plan_chunks(plan, tensor))
        site = Site(backend, sink, journal, memory, job, Feed(chunks, _batched(plan)))
        _create_shards(site)
        backend.prepare(job)
        job.progress.start("quantize", sum(tensor.source.nbytes for tensor in tensors))
        _work_off(site, jobs)
        job.progress.finish()
    return site.outcome


def _batched(plan: Plan) -> set[str]:
    return {name for name, format in plan.formats_used.items() if are_rows_alone(format)}


def _create_shards(site: Site) -> None:
    plan = site.job.plan
    for file in plan.files:
        header = header_of(plan, file)
        site.sink.create(file, len(header) + data_bytes(plan, file))
        site.starts[file] = len(header)
        site.sink.write_at(file, 0, [as_bytes(header)])
        site.outcome.digests[file] = [(0, len(header), digest([header]))]


def _work_off(site: Site, jobs: int) -> None:
    """Have workers do all chunks: on the job's devices where the backend computes chunks there, else on the CPU."""
    with device_faults(site.job):
        places = lanes(site.job.devices if site.backend.takes_batches else ("cpu",), jobs)
    with ThreadPoolExecutor(len(places), "schemegen") as pool:
        try:
            workers = [pool.submit(work, site, lane) for lane in places]
            for worker in wait(workers, return_when=FIRST_EXCEPTION).done:
                worker.result()
        finally:
            site.feed.stop()


def _opened(plan: Plan, checkpoint: Checkpoint, opened: ExitStack) -> dict[str, int]:
    """The source shards, open until `opened` is left."""
    allow_open_files(2 * len(plan.files) + _OTHER_FILES)
    sources = {}
    for file in plan.files:
        sources[file] = _open(checkpoint, file)
        opened.callback(os.close, sources[file])
    return sources


def _open(checkpoint: Checkpoint, name: str) -> int:
    try:
        return os.open(checkpoint.path(name), os.O_RDONLY)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise OutputError(
                f"cannot open {name}: {error.strerror}; raise the limit (ulimit -n) and run again"
            ) from error
        raise CheckpointError(f"cannot open {name}: {error.strerror}; the source changed under the run") from error
