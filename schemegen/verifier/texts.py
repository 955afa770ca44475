"""Checks of config.json and the index: what loaders believe before they open a shard."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.reading import parse_object, read_text
from schemegen.engines import first_expert, is_ignore_list, matches, spellings
from schemegen.errors import CheckpointError

BLOCK_NAME: Final = "quantization_config"
_PACKED: Final = ".weight_packed"


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
    faults += [f"the index names tensor {name}, which no shard holds" for name in weight_map.keys() - stored.keys()]
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if type(total) is not int or total != nbytes:
        faults.append(f"the index gives total_size {total!r}, the tensors are {nbytes} bytes")
    return faults


def config_faults(config: Mapping[str, Any], headers: Iterable[Header]) -> list[str]:
    """Whether config.json declares the quantization and ignores no module that is stored packed."""
    block = config.get(BLOCK_NAME)
    if not isinstance(block, dict):
        return [f"config.json has no {BLOCK_NAME}; engines would take packed weights for plain ones"]
    ignore = block.get("ignore")
    if ignore is None or not is_ignore_list(ignore):
        return [f"{BLOCK_NAME}.ignore in config.json is not a list of names and regular expressions"]
    modules = {
        first_expert(tensor.name.removesuffix(_PACKED))
        for header in headers
        for tensor in header.tensors
        if tensor.name.endswith(_PACKED)
    }
    return [
        f"config.json ignores {module}, which is stored packed"
        for module in sorted(modules)
        if any(matches(name, ignore) for name in spellings(module))
    ]


def without_block(text: str) -> object:
    """All that a config's text says, but for the block: order of keys and spelling of numbers too."""

    def spelled(number: str) -> tuple[str, str]:
        return "number", number

    pairs = json.loads(text, object_pairs_hook=tuple, parse_int=spelled, parse_float=spelled, parse_constant=spelled)
    return [(key, value) for key, value in pairs if key != BLOCK_NAME]
