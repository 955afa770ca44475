"""From a plan to a finished folder: checks, the run, the seal, the rename. Any step may be interrupted and repeated."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from schemegen.architectures.base import Architecture
from schemegen.backends.guard import GuardedBackend
from schemegen.checkpoint.identity import ShardIdentity, side_digests, source_identity
from schemegen.checkpoint.model import Checkpoint
from schemegen.compilation import compiling
from schemegen.errors import CheckpointError, OutputError
from schemegen.manifest import MANIFEST_NAME, Manifest, check_names, read_manifest
from schemegen.planner import Plan
from schemegen.progress import Progress
from schemegen.runner.devices import check_devices, find_devices
from schemegen.runner.differences import differences, from_headers
from schemegen.runner.execute import Outcome, run
from schemegen.runner.journal import Journal
from schemegen.runner.owned import check_overwritable
from schemegen.runner.place import check_output_place
from schemegen.runner.space import check_space
from schemegen.runner.workspace import Workspace
from schemegen.seal import Sealing, base_of, seal
from schemegen.verifier import check_small_files, check_unread
from schemegen.writer import FileSink

#: Bytes on disk beside the tensors: headers, index and manifest for each stored tensor, and for each run.
_BYTES_A_NAME: Final = 500
_BYTES_A_RUN: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """All that a production needs; `command` are the words that say it, `base_model` the Hub id that somebody named."""

    plan: Plan
    checkpoint: Checkpoint
    architecture: Architecture
    backend: GuardedBackend
    output: Path
    devices: tuple[str, ...]
    jobs: int
    overwrite: bool
    restart: bool
    unindexed: Literal["refuse", "drop"]
    command: tuple[str, ...]
    base_model: str | None = None
    plugins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """What the source is: its shards, and the digests of its config.json and side files."""

    shards: tuple[ShardIdentity, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Produced:
    """What came of an order. `checks` are phrases; an unchanged output was found finished."""

    status: Literal["written", "unchanged"]
    seconds: float
    resumed_bytes: int
    checks: tuple[str, ...]
    report: tuple[str, ...]


def produce(order: Order, progress: Progress) -> Produced:
    """Make the output of the order, or find it made. Raises before the first byte wherever it can."""
    _check_request(order)
    if (remote := order.checkpoint.remote) is not None:
        if remote.missing_bytes and (checks := _foresee(order)):
            return Produced("unchanged", 0.0, 0, checks, ())
        order = replace(order, checkpoint=order.checkpoint.fetched(progress))
        check_output_place(order.output, order.checkpoint)
    began = time.perf_counter()
    source = Source(source_identity(order.checkpoint), side_digests(order.checkpoint))
    wanted = _identity(order, source)
    if os.path.lexists(order.output) and (checks := _standing(order, wanted)):
        return Produced("unchanged", time.perf_counter() - began, 0, checks, ())
    devices = find_devices(order.devices, order.backend)
    workspace = Workspace(order.output)
    _check_space(order, workspace)
    try:
        workspace.enter(wanted, restart=order.restart)
        with compiling(order.plan, progress) as compiled:
            outcome, manifest = _fill(order, devices.names, workspace, source, progress)
        checks = check_unread(workspace.model, order.plan, manifest)
        _check_source_unchanged(order.checkpoint, source)
        workspace.publish(overwrite=order.overwrite)
    finally:
        workspace.close()
    report = (*devices.notes, *manifest.backend_report)
    seconds = time.perf_counter() - began - compiled.seconds
    return Produced("written", seconds, outcome.resumed_bytes, checks, report)


def _foresee(order: Order) -> tuple[str, ...]:
    """Whatever would stop the run after a download stops it before; what was checked of a finished output."""
    shards = (ShardIdentity(s.name, s.size, s.mtime_ns, s.header_digest, "") for s in order.checkpoint.shards)
    wanted = _identity(order, Source(tuple(shards), {}))
    if os.path.lexists(order.output) and (checks := _standing(order, wanted, from_headers)):
        return checks
    find_devices(order.devices, order.backend)
    workspace = Workspace(order.output)
    workspace.foresee(wanted, restart=order.restart)
    _check_space(order, workspace)
    return ()


def _check_request(order: Order) -> None:
    check_devices(order.devices, order.backend)
    check_names([file.name for file in order.checkpoint.side_files], order.plan.files)
    mtp = [file.name for file in order.checkpoint.unindexed if file.mtp]
    if mtp and order.unindexed == "refuse":
        raise CheckpointError(
            f"{', '.join(mtp)} holds MTP tensors but the index does not name it, so the MTP block would be lost; "
            "add it to the index, or leave it out with --unindexed drop"
        )
    check_output_place(order.output, order.checkpoint)


def _identity(order: Order, source: Source) -> dict[str, Any]:
    """What makes a run this run and no other, as JSON values."""
    plan = order.plan
    return {
        "schemegen": version("schemegen"),
        "model": plan.model_id,
        "revision": plan.revision,
        "base_model": base_of(order.base_model, plan.model_id),
        "scheme": plan.scheme.name,
        "scheme_digest": plan.scheme.digest,
        "rules": [rule.to_dict() for rule in plan.rules],
        "backend": order.backend.name,
        "versions": dict(order.backend.versions(plan)),
        "source": [asdict(shard) for shard in source.shards],
        "source_files": dict(source.files),
    }


def _of_manifest(manifest: Manifest) -> dict[str, Any]:
    return {
        "schemegen": manifest.schemegen,
        "model": manifest.model_id,
        "revision": manifest.revision,
        "base_model": manifest.base_model,
        "scheme": manifest.scheme.name,
        "scheme_digest": manifest.scheme_digest,
        "rules": list(manifest.rules),
        "backend": manifest.backend,
        "source": [shard.model_dump() for shard in manifest.source],
        "source_files": dict(manifest.source_files),
    }


def _standing(
    order: Order, wanted: dict[str, Any], known: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
) -> tuple[str, ...]:
    """What was checked of an output that is this very result; nothing where it may be overwritten; else OutputError.

    The manifest knows no times, so those of the source are left out; so are versions, which only the parts of one run
    must share. Shards are not read again. `known` takes from an identity what can be compared.
    """
    if order.overwrite:
        check_overwritable(order.output)
        return ()
    if not order.output.is_dir():
        raise OutputError(f"output {order.output} is not a folder; choose another with -o")
    if not (order.output / MANIFEST_NAME).is_file():
        raise OutputError(f"output {order.output} exists and is no result of schemegen; remove it or choose another")
    manifest = read_manifest(order.output)
    source = [{key: value for key, value in shard.items() if key != "mtime_ns"} for shard in wanted["source"]]
    result = {key: value for key, value in wanted.items() if key != "versions"} | {"source": source}
    if lines := differences(known(_of_manifest(manifest)), known(result)):
        raise OutputError(
            "\n".join([f"output {order.output} exists and is not this result:", *lines])
            + "\nchoose another with -o, or --overwrite it"
        )
    checks = (*check_unread(order.output, order.plan, manifest), check_small_files(order.output, manifest))
    Workspace(order.output).clear_finished()
    return (*checks, "the shards' bytes were not read; schemegen verify reads them")


def _fill(
    order: Order, devices: tuple[str, ...], workspace: Workspace, source: Source, progress: Progress
) -> tuple[Outcome, Manifest]:
    """Write and seal the partial folder."""
    journal, sink = Journal(workspace.folder), FileSink(workspace.model)
    try:
        outcome = run(
            order.plan,
            order.checkpoint,
            order.backend,
            sink,
            journal,
            scratch=workspace.scratch,
            devices=devices,
            jobs=order.jobs,
            progress=progress,
        )
        sink.commit()
    finally:
        sink.close()
        journal.close()
    return outcome, seal(workspace.model, _sealing(order, source, outcome))


def _sealing(order: Order, source: Source, outcome: Outcome) -> Sealing:
    return Sealing(
        plan=order.plan,
        checkpoint=order.checkpoint,
        architecture=order.architecture,
        identity=source.shards,
        source_files=source.files,
        digests=outcome.digests,
        backend=order.backend.name,
        same_bits_as=order.backend.same_bits_as(order.plan),
        versions=order.backend.versions(order.plan),
        command=order.command,
        report=order.backend.report(),
        base_model=order.base_model,
        plugins=order.plugins,
    )


def _check_space(order: Order, workspace: Workspace) -> None:
    side = sum(file.size for file in order.checkpoint.side_files)
    totals = order.plan.totals
    scratch = order.backend.needs(order.plan).scratch_bytes
    beside = side + scratch + totals.tensors_out * _BYTES_A_NAME + _BYTES_A_RUN
    needed = totals.bytes_out + beside - workspace.written_bytes(scratch)
    check_space(order.output, workspace.folder, needed, order.checkpoint.remote)


def _check_source_unchanged(checkpoint: Checkpoint, source: Source) -> None:
    for shard in source.shards:
        found = os.stat(checkpoint.path(shard.name))
        if (found.st_size, found.st_mtime_ns) != (shard.size, shard.mtime_ns):
            raise CheckpointError(f"{shard.name} changed while it was read; run again with --restart")
