"""Verification of a folder, whole or at the end of a run that has just written it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from schemegen.architectures.base import Architecture
from schemegen.checkpoint.assembly import CONFIG_NAME
from schemegen.checkpoint.identity import side_digests, source_identity
from schemegen.checkpoint.model import Checkpoint
from schemegen.digests import file_digest
from schemegen.engines import declaration_faults
from schemegen.errors import VerificationError
from schemegen.manifest import CARD_NAME, Manifest, travel_names
from schemegen.planner import Plan
from schemegen.progress import Progress
from schemegen.verifier.content import Source, check_content
from schemegen.verifier.entries import check_entries
from schemegen.verifier.report import Findings, Report, counted
from schemegen.verifier.structure import check_headers, check_structure
from schemegen.verifier.texts import BLOCK_NAME, differ_beyond_block, read_object


def check_unread(folder: Path, plan: Plan, manifest: Manifest) -> tuple[str, ...]:
    """The checks that read no tensor; a phrase for each, or VerificationError with every finding."""
    findings = Findings()
    headers = check_structure(folder, manifest, check_entries(folder, manifest, findings), findings)
    check_headers(folder, plan, manifest, headers, findings)
    return findings.report().checks


def check_small_files(folder: Path, manifest: Manifest) -> str:
    """Read all files but the shards; the phrase of that check, or VerificationError with every finding."""
    findings = Findings()
    _check_files(folder, manifest, check_entries(folder, manifest, findings), findings)
    return findings.report().checks[-1]


def verify_folder(
    folder: Path,
    manifest: Manifest,
    plan: Plan | None,
    checkpoint: Checkpoint | None,
    *,
    architecture: Architecture | None = None,
    jobs: int,
    progress: Progress,
) -> Report:
    """Check every byte against the manifest and, given plan and source, against these; VerificationError otherwise.

    With an architecture too, `ignore` is compared with what engines look up.
    """
    began, findings = time.perf_counter(), Findings()
    present = check_entries(folder, manifest, findings)
    headers = check_structure(folder, manifest, present, findings)
    digests = _check_files(folder, manifest, present, findings)
    source = None
    if plan is not None and checkpoint is not None:
        _check_source(manifest, checkpoint)
        _check_side_files(manifest, digests, checkpoint, findings)
        _check_config(folder, checkpoint, plan, architecture, findings)
        source = Source(plan, checkpoint, check_headers(folder, plan, manifest, headers, findings))
    compiled = check_content(folder, manifest, headers, source, findings, jobs, progress)
    return replace(findings.report(), seconds=time.perf_counter() - began - compiled)


def _check_files(folder: Path, manifest: Manifest, present: Collection[str], findings: Findings) -> dict[str, str]:
    """Compare every file that is no shard with its digest; the digests found, of those that are there."""
    found = {}
    for name in filter(present.__contains__, manifest.files):
        path = folder / name
        try:
            found[name] = file_digest(path)
            findings.bytes_read += path.stat().st_size
        except OSError as error:
            findings.add(f"{name} cannot be read: {error.strerror}")
            continue
        if found[name] != manifest.files[name]:
            findings.add(f"{name} is not what the manifest says; it was changed after it was written")
    findings.checked(f"{counted(len(found), 'other file')} as in the manifest")
    return found


def check_source_headers(manifest: Manifest, checkpoint: Checkpoint) -> None:
    """VerificationError where headers alone show that the output was not made from this source."""
    samples = {shard.name: shard.sample_digest for shard in manifest.source}
    ours = {s.name: (s.size, s.header_digest, samples.get(s.name, "")) for s in checkpoint.shards}
    _check_shards(manifest, checkpoint.model_id, ours)


def _check_source(manifest: Manifest, checkpoint: Checkpoint) -> None:
    """VerificationError, one finding, unless the output was made from this very source."""
    ours = {s.name: (s.size, s.header_digest, s.sample_digest) for s in source_identity(checkpoint)}
    _check_shards(manifest, checkpoint.model_id, ours)


def _check_shards(manifest: Manifest, model_id: str, ours: Mapping[str, tuple[int, str, str]]) -> None:
    theirs = {shard.name: (shard.size, shard.header_digest, shard.sample_digest) for shard in manifest.source}
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            what = _difference(theirs.get(name), ours.get(name))
            raise VerificationError(
                [f"{model_id} is not what this output was made from: {name} {what}; give the same revision"]
            )


def _difference(theirs: tuple[int, str, str] | None, ours: tuple[int, str, str] | None) -> str:
    if theirs is None or ours is None:
        return "was not there" if theirs is None else "is not there"
    if theirs[0] != ours[0]:
        return f"is {ours[0]:,} bytes long and was {theirs[0]:,}"
    return "has another header" if theirs[1] != ours[1] else "holds other weights"


def _check_side_files(
    manifest: Manifest, digests: Mapping[str, str], checkpoint: Checkpoint, findings: Findings
) -> None:
    """The source's side files are those of the run, and the output has every one of them."""
    ours, theirs = side_digests(checkpoint), manifest.source_files
    differ = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    for name in sorted(differ):
        findings.add(_side_difference(checkpoint.model_id, name, name in theirs, name in ours))
    names = travel_names([file.name for file in checkpoint.side_files])
    own = {CONFIG_NAME, CARD_NAME, *filter(None, [checkpoint.index_name])}
    for name, copy in names.items():
        if copy not in digests:
            findings.add(f"{copy} is missing, the source's {name}")
        elif name not in differ and digests[copy] != ours[name]:
            findings.add(f"{copy} is not the source's {name}")
    for name in sorted(digests.keys() - set(names.values()) - own):
        findings.add(f"{name} is no file of the source")
    findings.checked(f"{counted(len(names), 'side file')} as in the source")


def _side_difference(model_id: str, name: str, was_there: bool, is_there: bool) -> str:
    what = "holds something else" if was_there and is_there else "is not there" if was_there else "was not there"
    return f"{model_id} is not what this output was made from: its file {name} {what}; give the same revision"


def _check_config(
    folder: Path, checkpoint: Checkpoint, plan: Plan, architecture: Architecture | None, findings: Findings
) -> None:
    """config.json is the source's and one block, and the block says what the plan did; the index keeps its metadata."""
    config = read_object(folder / CONFIG_NAME, [])
    if config:
        text = (folder / CONFIG_NAME).read_text(encoding="utf-8")
        if differ_beyond_block(text, checkpoint.config_text):
            findings.add(f"config.json differs from the source's by more than its {BLOCK_NAME}")
        if isinstance(block := config.get(BLOCK_NAME), dict):
            faults = declaration_faults(block, plan, architecture)
            findings.found.extend(f"config.json: {BLOCK_NAME}: {fault}" for fault in faults)
        findings.checked(f"config.json is the source's but for its {BLOCK_NAME}, which is the plan's")
    if checkpoint.index_name is not None:
        metadata = read_object(folder / checkpoint.index_name, []).get("metadata")
        if not isinstance(metadata, dict) or {**metadata, "total_size": 0} != {
            **checkpoint.index_metadata,
            "total_size": 0,
        }:
            findings.add("the index lacks metadata of the source's, or has other")
