"""Checks that read headers and small files only: which files are there, and whether names and places agree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from schemegen.checkpoint.assembly import CONFIG_NAME
from schemegen.checkpoint.headers import Header, read_header
from schemegen.checkpoint.index import INDEX_NAME
from schemegen.errors import CheckpointError
from schemegen.manifest import Manifest
from schemegen.planner import Output, Plan
from schemegen.verifier.report import Findings, counted
from schemegen.verifier.texts import config_faults, index_faults, read_object
from schemegen.writer import header_of


def check_structure(
    folder: Path, manifest: Manifest, present: Collection[str], findings: Findings
) -> dict[str, Header]:
    """All checks that need neither tensors nor a plan; the headers of the shards that open and have their size."""
    shards = [file for file in manifest.shards if file in present]
    headers = {file: header for file in shards if (header := _opened(folder, file, findings))}
    _check_texts(folder, manifest, headers, present, findings)
    return {file: header for file, header in headers.items() if _has_size(manifest, header, findings)}


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
    folder: Path, manifest: Manifest, headers: Mapping[str, Header], present: Collection[str], findings: Findings
) -> None:
    """The index and config.json against the headers; with a shard amiss the index would only repeat that."""
    count = sum(len(header.tensors) for header in headers.values())
    findings.checked(f"{counted(len(headers), 'shard')} opened with safetensors, {counted(count, 'tensor')}")
    if INDEX_NAME in manifest.files and INDEX_NAME in present:
        index = read_object(folder / INDEX_NAME, findings.found)
        if index and len(headers) == len(manifest.shards):
            findings.found.extend(index_faults(index, headers.values()))
            findings.checked("index and shards name the same tensors, one to one")
    elif len(manifest.shards) != 1 and INDEX_NAME not in manifest.files:
        findings.add(f"{len(manifest.shards)} shards need {INDEX_NAME}, and the manifest names none")
    if CONFIG_NAME not in manifest.files:
        findings.add(f"the manifest names no {CONFIG_NAME}, without which nobody loads the shards")
    elif CONFIG_NAME in present:
        config = read_object(folder / CONFIG_NAME, findings.found)
        findings.found.extend(config_faults(config, headers.values()) if config else ())
        findings.checked("config.json declares the quantization and ignores no packed module")


def check_headers(
    folder: Path, plan: Plan, manifest: Manifest, headers: Mapping[str, Header], findings: Findings
) -> dict[str, Header]:
    """The shards whose header is the plan's, to the byte; what differs in the others is found."""
    for file in sorted(set(manifest.shards) ^ set(plan.files)):
        known = file in plan.files
        findings.add(
            f"{file} is a shard of the plan, and the manifest does not name it"
            if known
            else f"{file} is none of the plan's shards"
        )
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
