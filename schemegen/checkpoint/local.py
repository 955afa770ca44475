"""Opens a model folder: a download, a Hub cache snapshot, or whatever a person put together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemegen.checkpoint.files import sort_files
from schemegen.checkpoint.headers import Header, read_header
from schemegen.checkpoint.index import check_headers, read_index
from schemegen.checkpoint.model import Checkpoint, Shard
from schemegen.checkpoint.reading import parse_object, read_text, reading, require_utf8
from schemegen.checkpoint.tree import find_files
from schemegen.errors import CheckpointError

CONFIG_NAME: Final = "config.json"
_CACHE_PREFIX: Final = "models--"


def open_local(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, told by its headers alone; CheckpointError for all that is damaged or hostile."""
    root = _resolved(folder)
    _require_config(root)
    cache = _cache_folder(root)
    model_id = _hub_id(cache) if cache else root.name or "model"
    for name in (model_id, root.name):
        require_utf8(name, "folder", "rename the folder")
    files = find_files(root, cache / "blobs" if cache else None)
    config_text = read_text(root / CONFIG_NAME, CONFIG_NAME)
    config = parse_object(config_text, CONFIG_NAME)
    index = read_index(root, files)
    headers = [read_header(root / shard, shard) for shard in index.shards]
    check_headers(index, headers)
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    if not tensors:
        raise CheckpointError(f"{', '.join(index.shards)} holds no tensor; download the model again")
    side_files, unindexed = sort_files(root, files, {CONFIG_NAME, *index.shards, *filter(None, [index.name])})
    return Checkpoint(
        root=root,
        model_id=model_id,
        revision=root.name if cache else None,
        config=config,
        config_text=config_text,
        index_name=index.name,
        index_metadata=index.metadata,
        shards=tuple(map(_shard, headers)),
        tensors=tensors,
        side_files=side_files,
        unindexed=unindexed,
    )


def _resolved(folder: Path) -> Path:
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"there is no folder {str(folder)!r}; check the path") from error
    if not root.is_dir():
        raise CheckpointError(f"{str(folder)!r} is a file; give the folder that holds it and {CONFIG_NAME}")
    return root


def _require_config(root: Path) -> None:
    """Before anything is walked: the folder given may be a home directory."""
    with reading(f"folder {root.name!r}"):
        names = {entry.name for entry in root.iterdir()}
    if CONFIG_NAME in names:
        return
    hint = "download the model again, or give the folder that holds it"
    if root.name.startswith(_CACHE_PREFIX) and "snapshots" in names:
        hint = "it is a Hub cache: give one of the folders in its snapshots"
    raise CheckpointError(f"folder {root.name!r} has no {CONFIG_NAME}; {hint}")


def _cache_folder(root: Path) -> Path | None:
    """The Hub cache's folder of the model where `root` is one of its snapshots."""
    cache = root.parent.parent
    return cache if root.parent.name == "snapshots" and cache.name.startswith(_CACHE_PREFIX) else None


def _hub_id(cache: Path) -> str:
    return cache.name.removeprefix(_CACHE_PREFIX).replace("--", "/")


def _shard(header: Header) -> Shard:
    return Shard(header.shard, header.size, header.mtime_ns, header.digest)
