"""Walks a checkpoint folder without leaving it: every file that could travel, each link and special file checked."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from schemegen.checkpoint.hub_cache import is_blob
from schemegen.checkpoint.reading import reading, require_utf8
from schemegen.errors import CheckpointError

STAYS_BEHIND: Final = frozenset({".git", ".cache", ".huggingface", "__pycache__", ".DS_Store"})
"""Files and folders that belong to a checkout or a download, not to the model."""
_MAX_DEPTH: Final = 64
"""Folders in one another; no model has more than a few, and each one costs a walk a stack frame."""
_UNFINISHED: Final = (".lock", ".incomplete", ".part")


def find_files(root: Path, *blobs: Path) -> Mapping[str, int]:
    """Bytes of every file below `root` (resolved) by posix name, sorted; a Hub cache's links may lead to `blobs`.

    CheckpointError for links that lead elsewhere, links to folders, special files, folders nested too deeply, and
    what cannot be read.
    """
    return dict(sorted(_walk(root, root, [root, *blobs])))


def find_named(root: Path, names: Iterable[str], *blobs: Path) -> Mapping[str, int]:
    """Bytes of the files of these names below `root` (resolved), checked as in `find_files`, whatever else is there."""
    allowed = [root, *blobs]
    found = {}
    for name in sorted(names):
        # On the way to it a folder may be a link.
        _check_link(root / name, name, allowed)
        found[name] = _checked_size(root / name, name, allowed)
    return found


def travels(name: str) -> bool:
    """Whether a file of this posix name is the model's own: no part of it stays behind."""
    return not any(map(_stays_behind, name.split("/")))


def _walk(folder: Path, root: Path, allowed: list[Path]) -> Iterator[tuple[str, int]]:
    with reading(f"folder {_name(folder, root)!r}"), os.scandir(folder) as scan:
        entries = [entry for entry in scan if not _stays_behind(entry.name)]
    if len(folder.relative_to(root).parts) > _MAX_DEPTH:
        top = folder.relative_to(root).parts[0]
        raise CheckpointError(
            f"folder {top!r} holds folders more than {_MAX_DEPTH} deep; take it out of the checkpoint"
        )
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, root, allowed)
        else:
            name = _name(path, root)
            yield name, _checked_size(path, name, allowed)


def _stays_behind(name: str) -> bool:
    return name in STAYS_BEHIND or name.endswith(_UNFINISHED)


def _name(path: Path, root: Path) -> str:
    """The posix path below `root`; CheckpointError where it is not Unicode, since JSON could not hold it."""
    name = path.relative_to(root).as_posix()
    require_utf8(name, "file", "rename the file")
    return name


def _checked_size(path: Path, name: str, allowed: list[Path]) -> int:
    what = f"file {name!r}"
    if path.is_symlink():
        _check_link(path, name, allowed)
    with reading(what):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{what} is a pipe, socket or device; a checkpoint holds only files: remove it")
    if not os.access(path, os.R_OK):
        raise CheckpointError(f"{what} cannot be read (permission denied); make it readable")
    return status.st_size


def _check_link(path: Path, name: str, allowed: list[Path]) -> None:
    """CheckpointError unless the link ends at something in an allowed folder that is not itself a folder."""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"link {name!r} leads nowhere; download the file again or remove the link") from error
    if not any(is_blob(target, folder) for folder in allowed):
        raise CheckpointError(
            f"link {name!r} leads out of the checkpoint; put the file itself there or remove the link"
        )
    if target.is_dir():
        raise CheckpointError(f"link {name!r} leads to a folder; put the folder itself there or remove the link")
