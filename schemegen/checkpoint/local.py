"""Opens a model folder: a download, a Hub cache snapshot, or whatever a person put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from schemegen.checkpoint.assembly import CONFIG_NAME, assemble
from schemegen.checkpoint.headers import Header, header_stamp, read_header
from schemegen.checkpoint.hub_cache import SNAPSHOTS, blob_folders, model_folder, repo_of
from schemegen.checkpoint.model import Checkpoint, Shard
from schemegen.checkpoint.reading import read_text, reading, require_utf8
from schemegen.checkpoint.tree import find_files, find_named
from schemegen.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a checkpoint that lies in `root`."""

    root: Path
    files: Mapping[str, int]

    def text(self, name: str, what: str) -> str:
        """A whole small file."""
        return read_text(self.root / name, what)

    def header(self, name: str) -> Header:
        """The header of a safetensors file."""
        return read_header(self.root / name, name)


def open_local(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, told by its headers alone; CheckpointError for all that is damaged or hostile."""
    root = _resolved(folder)
    _require_config(root)
    cache = model_folder(folder)
    model_id = (cache and repo_of(cache.name)) or root.name or "model"
    for name in (model_id, root.name):
        require_utf8(name, "folder", "rename the folder")
    files = find_files(root, *blob_folders(cache))
    return assemble(Folder(root, files), root, model_id, root.name if cache else None)


def on_disk(checkpoint: Checkpoint, names: Collection[str], snapshot: Path) -> Checkpoint | None:
    """The checkpoint, known from headers, with its files in a Hub cache's snapshot; None where others lie there.

    CheckpointError for what is not there, or leads out of the cache.
    """
    root = _resolved(snapshot)
    sizes = find_named(root, names, *blob_folders(model_folder(snapshot)))
    shards = _stamped(root, checkpoint.shards)
    same = (
        tuple(replace(shard, mtime_ns=0) for shard in shards) == checkpoint.shards
        and all(sizes[file.name] == file.size for file in checkpoint.side_files)
        and read_text(root / CONFIG_NAME, CONFIG_NAME) == checkpoint.config_text
    )
    return replace(checkpoint, root=root, shards=shards, remote=None) if same else None


def changed_shards(checkpoint: Checkpoint, snapshot: Path) -> list[str]:
    """The shards whose headers in the snapshot are not those that the checkpoint was known by."""
    return [
        shard.name
        for shard in checkpoint.shards
        if tuple(replace(found, mtime_ns=0) for found in _stamped(snapshot, (shard,))) != (shard,)
    ]


def _stamped(root: Path, shards: tuple[Shard, ...]) -> tuple[Shard, ...]:
    """The shards as they lie there; none where one of them is no safetensors file any more."""
    with suppress(CheckpointError):
        return tuple(header_stamp(root / shard.name, shard.name) for shard in shards)
    return ()


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
    if repo_of(root.name) is not None and SNAPSHOTS in names:
        hint = "it is a Hub cache: give one of the folders in its snapshots"
    raise CheckpointError(f"folder {root.name!r} has no {CONFIG_NAME}; {hint}")
