"""Checks that read headers and small files only: which files are there, and whether names and places agree."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from schemegen.checkpoint.headers import Header, read_header
from schemegen.checkpoint.index import INDEX_NAME
from schemegen.checkpoint.local import CONFIG_NAME
from schemegen.errors import CheckpointError
from schemegen.manifest import MANIFEST_NAME, Manifest
from schemegen.planner import Output, Plan
from schemegen.verifier.report import Findings, counted
from schemegen.verifier.texts import config_faults, index_faults, read_object
from schemegen.writer import header_of

#: What a download or an unfinished run leaves at the top of a folder, and no loader reads.
_NOT_OURS: Final = frozenset({".git", ".gitattributes", ".cache", ".schemegen"})


def check_structure(folder: Path, manifest: Manifest, findings: Findings) -> dict[str, Header]:
    """All checks that need neither tensors nor a plan; the headers of the shards that open and have their size."""
    missing = _check_files(folder, manifest, findings)
    present = [file for file in manifest.shards if file not in missing]
    headers = {file: header for file in present if (header := _opened(folder, file, findings))}
    _check_texts(folder, manifest, headers, missing, findings)
    return {file: header for file, header in headers.items() if _has_size(manifest, header, findings)}


def _check_files(folder: Path, manifest: Manifest, findings: Findings) -> set[str]:
    """Every file of the manifest is there, and no other; the missing ones."""
    expected = {*manifest.files, *manifest.shards, MANIFEST_NAME}
    found = {name for name in _names(folder) if name in expected or name.split("/")[0] not in _NOT_OURS}
    for name in sorted(expected - found):
        findings.add(f"{name} is missing")
    for name in sorted(found - expected):
        findings.add(f"{name} is no file of this output; loaders may read it: remove it")
    findings.checked(f"{counted(len(expected), 'file')} there, and no other")
    return expected - found


def _names(folder: Path) -> Iterator[str]:
    """Posix names of all files below the folder; a link that leads nowhere is no file."""
    for place, _, files in os.walk(folder):
        for file in files:
            path = Path(place, file)
            if path.is_file():
                yield path.relative_to(folder).as_posix()


def _opened(folder: Path, file: str, findings: Findings) -> Header | None:
    """The shard's header, read strictly and as safetensors reads it."""
    from safetensors import SafetensorError, safe_open

    try:
        header = read_header(folder / file, file)
        with safe_open(folder / file, framework="np") as shard:
            names = set(shard.keys())
    except (CheckpointError, SafetensorError, OSError) as error:
        findings.add(f"{file} does not open: {error}")
        return None
    if names != {tensor.name for tensor in header.tensors}:
        findings.add(f"{file}: safetensors reads other tensor names from its header")
    if header.metadata.get("format") != "pt":
        findings.add(f"{file}: its header lacks the metadata format: pt, without which transformers refuses it")
    return header


def _has_size(manifest: Manifest, header: Header, findings: Findings) -> bool:
    size = sum(tile.nbytes for tile in manifest.shards[header.shard])
    if header.size != size:
        findings.add(f"{header.shard} is {header.size:,} bytes long, the manifest says {size:,}")
    return header.size == size


def _check_texts(
    folder: Path, manifest: Manifest, headers: Mapping[str, Header], missing: set[str], findings: Findings
) -> None:
    """The index and config.json against the headers; with a shard amiss the index would only repeat that."""
    count = sum(len(header.tensors) for header in headers.values())
    findings.checked(f"{counted(len(headers), 'shard')} opened with safetensors, {counted(count, 'tensor')}")
    if INDEX_NAME in manifest.files and INDEX_NAME not in missing:
        index = read_object(folder / INDEX_NAME, findings.found)
        if index and len(headers) == len(manifest.shards):
            findings.found.extend(index_faults(index, headers.values()))
            findings.checked("index and shards name the same tensors, one to one")
    elif len(manifest.shards) != 1 and INDEX_NAME not in manifest.files:
        findings.add(f"{len(manifest.shards)} shards need {INDEX_NAME}, and the manifest names none")
    if CONFIG_NAME not in missing:
        config = read_object(folder / CONFIG_NAME, findings.found)
        findings.found.extend(config_faults(config, headers.values()) if config else ())
        findings.checked("config.json declares the quantization and ignores no packed module")


def check_headers(folder: Path, plan: Plan, headers: Mapping[str, Header], findings: Findings) -> dict[str, Header]:
    """The shards whose header is the plan's, to the byte; what differs in the others is found."""
    findings.found.extend(f"{file} is none of the plan's shards" for file in headers.keys() - set(plan.files))
    sound = {}
    for file in filter(headers.__contains__, plan.files):
        expected = header_of(plan, file)
        with (folder / file).open("rb") as shard:
            equal = shard.read(len(expected)) == expected
        if equal:
            sound[file] = headers[file]
        else:
            faults = list(_header_faults(headers[file], plan.outputs[file], len(expected)))
            findings.found.extend(faults or [f"{file}: its header says what the plan says, in other bytes"])
    findings.checked(f"{counted(len(sound), 'header')} as planned: names, dtypes, shapes, places")
    return sound


def _header_faults(header: Header, outputs: list[Output], start: int) -> Iterator[str]:
    stored, shard = {tensor.name: tensor for tensor in header.tensors}, header.shard
    for output in outputs:
        found = stored.pop(output.name, None)
        if found is None:
            yield f"tensor {output.name} is missing from {shard}"
        elif (found.dtype, found.shape) != (output.dtype, output.shape):
            planned = f"{output.dtype} {list(output.shape)}"
            yield f"tensor {output.name} is {found.dtype} {list(found.shape)}, planned {planned}"
        elif found.offset != start + output.offset:
            yield f"tensor {output.name} begins at byte {found.offset} of {shard}, planned {start + output.offset}"
    yield from (f"tensor {name} in {shard} is not in the plan" for name in stored)
