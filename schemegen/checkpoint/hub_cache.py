"""The layout of the Hub client's cache: `models--ORG--NAME` with `blobs/DIGEST` and `snapshots/COMMIT/NAME`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

BLOBS: Final = "blobs"
SNAPSHOTS: Final = "snapshots"
REFERENCES: Final = "refs"
LOCKS: Final = ".locks"
_MODELS: Final = "models--"
_DIGEST: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHARED_MARKER: Final = ".huggingface-shared-blobs"
"""What the client leaves in the folder where the repositories of one cache share their blobs."""


def is_digest(name: str) -> bool:
    """Whether a name is a blob's: a SHA-256, or a git hash."""
    return _DIGEST.fullmatch(name) is not None


def folder_name(repo: str) -> str:
    """The name of a model's folder in the cache."""
    return _MODELS + repo.replace("/", "--")


def repo_of(name: str) -> str | None:
    """The model that a folder of this name in the cache holds; None where it holds none."""
    return name.removeprefix(_MODELS).replace("--", "/") if name.startswith(_MODELS) else None


def model_folder(snapshot: Path) -> Path | None:
    """The cache's folder of the model where `snapshot` is one of its snapshots, by its name or by that it leads to."""
    for place in snapshot.resolve(), snapshot.absolute():
        folder = place.parent.parent
        if place.parent.name == SNAPSHOTS and repo_of(folder.name) is not None:
            return folder
    return None


def blob_folders(folder: Path | None) -> list[Path]:
    """Where the links of the snapshots of a model's folder may lead."""
    if folder is None:
        return []
    shared = folder.parent / BLOBS
    return [folder / BLOBS, *([shared] if (shared / _SHARED_MARKER).is_file() else [])]


def is_blob(target: Path, blobs: Path) -> bool:
    """Whether `target` (resolved) lies in this folder of blobs.

    Where the folder is itself a link, say to another disk, only a file named by a digest does: a cache that
    somebody else packed could have it lead anywhere.
    """
    place = blobs.resolve()
    if place == blobs:
        return target.is_relative_to(blobs)
    return target.parent == place and is_digest(target.name)
