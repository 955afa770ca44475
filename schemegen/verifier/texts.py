"""Checks of config.json and the index: what loaders believe before they open a shard."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from schemegen.architectures.known import RENAMES
from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.reading import parse_object, read_text
from schemegen.engines import LINEAR, block_faults, first_expert, is_entry, matches, spellings
from schemegen.errors import CheckpointError, shortened

BLOCK_NAME: Final = "quantization_config"
#: Every format has one, and no kept tensor does: quantized sources are refused.
_SCALE: Final = ".weight_scale"
_MAX_NAME: Final = 500


def read_object(path: Path, found: list[str]) -> Mapping[str, Any]:
    """A JSON object of the output; what is wrong with it goes to `found`."""
    try:
        return parse_object(read_text(path, path.name), path.name)
    except CheckpointError as error:
        found.append(str(error))
        return {}


def index_faults(index: Mapping[str, Any], headers: Iterable[Header]) -> list[str]:
    """Where the index and the shards' headers do not name each other, one to one, or `total_size` is wrong."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict):
        return ["the index has no weight_map"]
    stored = {tensor.name: header.shard for header in headers for tensor in header.tensors}
    nbytes = sum(tensor.nbytes for header in headers for tensor in header.tensors)
    faults = [
        f"tensor {name} stands in {file}, the index says {weight_map.get(name)}"
        for name, file in stored.items()
        if weight_map.get(name) != file
    ]
    faults += [
        f"the index names tensor {name}, which no shard holds" for name in sorted(weight_map.keys() - stored.keys())
    ]
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if type(total) is not int or total != nbytes:
        faults.append(f"the index gives total_size {total!r}, the tensors are {nbytes} bytes")
    return faults


def config_faults(config: Mapping[str, Any], headers: Iterable[Header]) -> list[str]:
    """Whether config.json declares the quantization: a group for every module that is stored quantized, none ignored.

    Names are taken in the checkpoint's spelling and in those that engines make of them in any family that ships.
    """
    block = config.get(BLOCK_NAME)
    if not isinstance(block, dict):
        return [f"config.json has no {BLOCK_NAME}; engines would take packed weights for plain ones"]
    ignore = block.get("ignore")
    if not isinstance(ignore, list) or not all(isinstance(entry, str) for entry in ignore):
        return [f"{BLOCK_NAME}.ignore in config.json is not a list of names and patterns"]
    faults = [f"config.json: {BLOCK_NAME}: {fault}" for fault in block_faults(block)]
    targets = _targets(block.get("config_groups"))
    for place, entries in (("ignore", ignore), ("targets", targets)):
        strange = [entry for entry in entries if not is_entry(entry)]
        faults += [f"{BLOCK_NAME}.{place}: {shortened(entry)} is no pattern that schemegen writes" for entry in strange]
        if strange:
            return faults
    return faults + _misread(ignore, targets, headers)


def _targets(groups: object) -> list[str]:
    """The targets of all groups, as far as they are texts; what else is amiss shows where the source is given."""
    values = groups.values() if isinstance(groups, dict) else ()
    found = [group.get("targets") for group in values if isinstance(group, dict)]
    return [entry for entries in found if isinstance(entries, list) for entry in entries if isinstance(entry, str)]


def _misread(ignore: Collection[str], targets: Collection[str], headers: Iterable[Header]) -> list[str]:
    modules = {
        first_expert(tensor.name.removesuffix(_SCALE))
        for header in headers
        for tensor in header.tensors
        if tensor.name.endswith(_SCALE)
    }
    too_long = [
        f"{shortened(module)} is longer than any module's name" for module in modules if len(module) > _MAX_NAME
    ]
    if too_long:
        return sorted(too_long)
    return [fault for module in sorted(modules) if (fault := _fault(module, ignore, targets))]


def _fault(module: str, ignore: Collection[str], targets: Collection[str]) -> str | None:
    names = spellings(module, RENAMES)
    if any(matches(name, ignore) for name in names):
        return f"config.json ignores {module}, which is stored quantized"
    if LINEAR not in targets and not all(matches(name, targets) for name in names):
        return f"no group of config.json targets {module}, which is stored quantized"
    return None


def differ_beyond_block(text: str, other: str) -> bool:
    """Whether two configs differ by more than their blocks."""
    try:
        return without_block(text) != without_block(other)
    except RecursionError:  # deeper than any config that is taken as a source
        return True


def without_block(text: str) -> object:
    """All that a config's text says, but for the block: order of keys and spelling of numbers too."""

    def spelled(number: str) -> tuple[str, str]:
        return "number", number

    pairs = json.loads(text, object_pairs_hook=tuple, parse_int=spelled, parse_float=spelled, parse_constant=spelled)
    return [(key, value) for key, value in pairs if key != BLOCK_NAME]
