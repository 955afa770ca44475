"""Which shards a checkpoint has and which of them holds each tensor: the index decides, and headers must agree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.reading import parse_object
from schemegen.errors import CheckpointError

INDEX_NAME: Final = "model.safetensors.index.json"
SINGLE_NAME: Final = "model.safetensors"
_ONE_OF: Final = re.compile(r"(.*?)([0-9]{1,9})(-of-)([0-9]{1,9})(\.safetensors)", re.IGNORECASE)
_WHAT: Final = f"index {INDEX_NAME!r}"


@dataclass(frozen=True, slots=True)
class Index:
    """Shard names, sorted, and the shard of each tensor; `name` and `weight_map` are None for a file without an index.

    `metadata` is as read: `total_size` may be a float, wrong or missing, and nothing here relies on it.
    """

    name: str | None
    metadata: Mapping[str, Any]
    shards: tuple[str, ...]
    weight_map: Mapping[str, str] | None


def read_index(files: Iterable[str], text: Callable[[str, str], str]) -> Index:
    """The index, or the one safetensors file, of `files`; `text` reads one of them and takes what messages call it."""
    names = set(files)
    if INDEX_NAME not in names:
        return Index(None, {}, (_single_file(names),), None)
    content = parse_object(text(INDEX_NAME, _WHAT), _WHAT)
    weight_map = _weight_map(content.get("weight_map"))
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    # The total is counted anew; the rest travels.
    _require_finite({key: value for key, value in metadata.items() if key != "total_size"})
    shards = tuple(sorted(set(weight_map.values())))
    for shard in shards:
        if shard not in names:
            raise CheckpointError(f"{_WHAT} names {shard!r}, which is not there", "download it again")
    return Index(INDEX_NAME, metadata, shards, weight_map)


def _require_finite(metadata: Mapping[str, Any]) -> None:
    try:
        json.dumps(metadata, allow_nan=False)
    except ValueError as error:
        raise CheckpointError(
            f"{_WHAT} has metadata with a number that is infinite or none, which JSON cannot hold; take it out"
        ) from error


def _single_file(names: set[str]) -> str:
    if SINGLE_NAME in names:
        return SINGLE_NAME
    found = sorted(name for name in names if name.lower().endswith(".safetensors") and "/" not in name)
    if not found:
        raise CheckpointError(f"the folder has no {INDEX_NAME} and no safetensors file", "download the model's weights")
    if len(found) > 1:
        listed = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        raise CheckpointError(f"the folder has {listed}, but no {INDEX_NAME}, which decides", "download the index too")
    _refuse_part(found[0])
    return found[0]


def _refuse_part(name: str) -> None:
    """CheckpointError for a file whose name says that others belong to it: without them it is half a model."""
    found = _ONE_OF.fullmatch(name)
    if found is None:
        return
    before, number, of, count, end = found.groups()
    if int(count) == int(number) == 1:
        return
    others = (n for n in range(1, int(count) + 1) if n != int(number))
    listed = [f"{before}{n:0{len(number)}}{of}{count}{end}" for n in islice(others, 3)]
    rest = int(count) - 1 - len(listed)
    more = f" and {rest} more" if rest > 0 else ""
    raise CheckpointError(
        f"{name!r} is one of {int(count)} files by its name, but {', '.join([INDEX_NAME, *listed])}{more} are missing; "
        "download all of the model"
    )


def _weight_map(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not value:
        raise CheckpointError(f"{_WHAT} has no weight_map that names the shard of each tensor", "download it again")
    for tensor, shard in value.items():
        if not isinstance(shard, str) or not is_plain(shard):
            raise CheckpointError(
                f"{_WHAT} puts tensor {tensor!r} into {shard!r}, which is no plain file name within the folder",
                "do not trust this checkpoint, or download it again",
            )
    return value


def is_plain(name: str) -> bool:
    """Whether a name is relative, spelled one way only, and stays in its folder, on every system."""
    if not name or "\\" in name or "\0" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.as_posix() == name and name != "."


def check_headers(index: Index, headers: Iterable[Header]) -> None:
    """CheckpointError unless each tensor of the index stands in its shard, and no shard holds a tensor besides."""
    if index.weight_map is None:
        return
    expected = dict(index.weight_map)
    for header in headers:
        for tensor in header.tensors:
            _check_place(tensor.name, header.shard, index.weight_map)
            del expected[tensor.name]
    for name, shard in expected.items():
        raise CheckpointError(
            f"{_WHAT} puts tensor {name!r} into {shard!r}, which does not hold it", "download both again"
        )


def _check_place(tensor: str, shard: str, weight_map: Mapping[str, str]) -> None:
    named = weight_map.get(tensor)
    if named == shard:
        return
    says = "does not name it" if named is None else f"puts it into {named!r}"
    raise CheckpointError(
        f"tensor {tensor!r} stands in {shard!r}, but {_WHAT} {says}", "download index and shards of one revision"
    )
