"""Opens a model folder: a download, a Hub cache snapshot, or whatever a person put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemegen.checkpoint.assembly import CONFIG_NAME, assemble
from schemegen.checkpoint.headers import Header, read_header
from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.reading import read_text, reading, require_utf8
from schemegen.checkpoint.tree import find_files, find_named
from schemegen.errors import CheckpointError

_CACHE_PREFIX: Final = "models--"
_SHARED_MARKER: Final = ".huggingface-shared-blobs"
"""What huggingface_hub leaves in the folder where the repositories of one cache share their blobs."""


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
    cache = _cache_folder(root)
    model_id = _hub_id(cache) if cache else root.name or "model"
    for name in (model_id, root.name):
        require_utf8(name, "folder", "rename the folder")
    files = find_files(root, *_blobs(cache))
    return assemble(Folder(root, files), root, model_id, root.name if cache else None)


def open_snapshot(snapshot: Path, names: Collection[str], model_id: str) -> Checkpoint:
    """The checkpoint of these files of a Hub cache's snapshot, whatever else lies there."""
    root = _resolved(snapshot)
    files = find_named(root, names, *_blobs(_cache_folder(root)))
    return assemble(Folder(root, files), root, model_id, root.name)


def _cache_folder(root: Path) -> Path | None:
    """The Hub cache's folder of the model where `root` is one of its snapshots."""
    cache = root.parent.parent
    return cache if root.parent.name == "snapshots" and cache.name.startswith(_CACHE_PREFIX) else None


def _blobs(cache: Path | None) -> list[Path]:
    """Where the links of a Hub cache's snapshot may lead."""
    if cache is None:
        return []
    shared = cache.parent / "blobs"
    return [cache / "blobs", *([shared] if (shared / _SHARED_MARKER).is_file() else [])]


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


def _hub_id(cache: Path) -> str:
    return cache.name.removeprefix(_CACHE_PREFIX).replace("--", "/")
