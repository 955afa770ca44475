"""From a plan to a finished folder: checks, the run, the seal, the rename. Any step may be interrupted and repeated."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from schemegen.architectures.base import Architecture
from schemegen.backends.base import Backend
from schemegen.checkpoint.identity import ShardIdentity, source_identity
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import CheckpointError, OutputError, UnsupportedError
from schemegen.manifest import MANIFEST_NAME, Manifest, read_manifest
from schemegen.planner import Plan
from schemegen.progress import Progress
from schemegen.runner.execute import Outcome, run
from schemegen.runner.journal import Journal
from schemegen.runner.workspace import Workspace, check_output_place
from schemegen.seal import Sealing, seal
from schemegen.verifier import check_unread, verify_folder
from schemegen.writer import FileSink

#: Bytes on disk beside the tensors: headers, index and manifest for each stored tensor, and for each run.
_BYTES_A_NAME: Final = 500
_BYTES_A_RUN: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """All that a production needs to know; `command` are the words that say it on a command line."""

    plan: Plan
    checkpoint: Checkpoint
    architecture: Architecture
    backend: Backend
    output: Path
    device: str
    jobs: int
    overwrite: bool
    restart: bool
    unindexed: Literal["refuse", "drop"]
    command: tuple[str, ...]


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
    began = time.perf_counter()
    _check_request(order)
    shards = source_identity(order.checkpoint)
    wanted = _identity(order, shards)
    if (order.output.exists() or order.output.is_symlink()) and _stands(order, wanted):
        return Produced("unchanged", time.perf_counter() - began, 0, ("the finished result stands",), ())
    workspace = Workspace(order.output)
    try:
        sealed = workspace.enter(wanted, restart=order.restart)
        outcome = Outcome() if sealed else _fill(order, workspace, shards, progress)
        manifest = read_manifest(workspace.folder)
        if sealed:
            _check_sealed(order, workspace, manifest, wanted, progress)
        checks = check_unread(workspace.folder, order.plan, manifest)
        _check_source_unchanged(order.checkpoint, shards)
        workspace.publish(overwrite=order.overwrite)
    finally:
        workspace.close()
    return Produced("written", time.perf_counter() - began, outcome.resumed_bytes, checks, order.backend.report())


def _check_request(order: Order) -> None:
    if order.device not in ("cpu", "auto"):
        raise UnsupportedError(f"device {order.device!r} is not offered yet; leave --device out to run on the CPU")
    for name, found in order.plan.scheme.formats.items():
        used = any(tensor.format == name for tensor in order.plan.tensors)
        if used and (reason := order.backend.refuses(found)):
            raise UnsupportedError(f"backend {order.backend.name} refuses format {name!r}: it {reason}")
    mtp = [file.name for file in order.checkpoint.unindexed if file.mtp]
    if mtp and order.unindexed == "refuse":
        raise CheckpointError(
            f"{', '.join(mtp)} holds MTP tensors but the index does not name it, so the MTP block would be lost; "
            "add it to the index, or leave it out with --unindexed drop"
        )
    check_output_place(order.output, order.checkpoint)


def _identity(order: Order, shards: tuple[ShardIdentity, ...]) -> dict[str, Any]:
    """What makes a run this run and no other, as JSON values."""
    plan = order.plan
    return {
        "schemegen": version("schemegen"),
        "model": plan.model_id,
        "revision": plan.revision,
        "scheme": plan.scheme.name,
        "scheme_digest": plan.scheme.digest,
        "rules": [rule.to_dict() for rule in plan.rules],
        "backend": order.backend.name,
        "source": [asdict(shard) for shard in shards],
    }


def _of_manifest(manifest: Manifest) -> dict[str, Any]:
    return {
        "schemegen": manifest.schemegen,
        "model": manifest.model_id,
        "revision": manifest.revision,
        "scheme": manifest.scheme.name,
        "scheme_digest": manifest.scheme_digest,
        "rules": list(manifest.rules),
        "backend": manifest.backend,
        "source": [shard.model_dump() for shard in manifest.source],
    }


def _same_run(manifest: Manifest, wanted: dict[str, Any]) -> bool:
    """Whether a manifest is that of the wanted run; it knows no times, so the source's are left out."""
    source = [{key: value for key, value in shard.items() if key != "mtime_ns"} for shard in wanted["source"]]
    return _of_manifest(manifest) == wanted | {"source": source}


def _stands(order: Order, wanted: dict[str, Any]) -> bool:
    """Whether the output is this very result; else OutputError, unless it may be overwritten."""
    if order.overwrite:
        _check_overwritable(order.output)
        return False
    if (order.output / MANIFEST_NAME).is_file():
        manifest = read_manifest(order.output)
        if _same_run(manifest, wanted):
            check_unread(order.output, order.plan, manifest)
            return True
    raise OutputError(f"output {order.output} exists and is not this result; choose another with -o, or --overwrite it")


def _check_overwritable(output: Path) -> None:
    """Only a model folder or an empty one is ever replaced."""
    if not output.is_dir():
        raise OutputError(f"output {output} is not a folder; choose another with -o")
    if Path.cwd().is_relative_to(output.resolve()):
        raise OutputError(f"output {output} is or holds the working folder; choose another with -o")
    names = {path.name for path in output.iterdir()}
    if names and not names & {MANIFEST_NAME, "config.json"}:
        raise OutputError(f"output {output} does not look like a model; remove it yourself or choose another with -o")


def _fill(order: Order, workspace: Workspace, shards: tuple[ShardIdentity, ...], progress: Progress) -> Outcome:
    """Write and seal the partial folder."""
    needs = order.backend.needs(order.plan)
    _check_space(order, workspace, needs.scratch_bytes)
    journal, sink = Journal(workspace.state), FileSink(workspace.folder)
    try:
        outcome = run(
            order.plan,
            order.checkpoint,
            order.backend,
            sink,
            journal,
            scratch=workspace.state,
            device=order.device,
            jobs=order.jobs,
            progress=progress,
        )
        sink.commit()
    finally:
        sink.close()
        journal.close()
    seal(workspace.folder, _sealing(order, shards, outcome))
    return outcome


def _sealing(order: Order, shards: tuple[ShardIdentity, ...], outcome: Outcome) -> Sealing:
    return Sealing(
        plan=order.plan,
        checkpoint=order.checkpoint,
        architecture=order.architecture,
        identity=shards,
        digests=outcome.digests,
        backend=order.backend.name,
        versions={name: version(name) for name in order.backend.versions},
        command=order.command,
        report=order.backend.report(),
    )


def _check_space(order: Order, workspace: Workspace, scratch: int) -> None:
    side = sum(file.size for file in order.checkpoint.side_files)
    totals = order.plan.totals
    beside = side + scratch + totals.tensors_out * _BYTES_A_NAME + _BYTES_A_RUN
    needed = totals.bytes_out + beside - workspace.written_bytes()
    free = shutil.disk_usage(workspace.folder).free
    if needed > free:
        raise OutputError(
            f"{order.output} needs {needed / 1e9:.2f} GB more and {free / 1e9:.2f} GB are free; "
            "make room or choose another place with -o"
        )


def _check_sealed(
    order: Order, workspace: Workspace, manifest: Manifest, wanted: dict[str, Any], progress: Progress
) -> None:
    """A folder whose run ended between the seal and the rename: believed only after its digests are read."""
    if not _same_run(manifest, wanted):
        raise OutputError(f"{workspace.folder} is the finished output of a different run; discard it with --restart")
    verify_folder(workspace.folder, manifest, None, None, jobs=order.jobs, progress=progress)


def _check_source_unchanged(checkpoint: Checkpoint, shards: tuple[ShardIdentity, ...]) -> None:
    for shard in shards:
        found = os.stat(checkpoint.path(shard.name))
        if (found.st_size, found.st_mtime_ns) != (shard.size, shard.mtime_ns):
            raise CheckpointError(f"{shard.name} changed while it was read; run again with --restart")
