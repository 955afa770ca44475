"""What schemegen may remove: the files that a manifest lists, and nothing that leads out of the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from schemegen.errors import OutputError, VerificationError
from schemegen.manifest import MANIFEST_NAME, read_manifest


def strange_entry(folder: Path) -> Path | None:
    """The first entry below that is a link, a file with a second name, a special file, or on another disk."""
    device = folder.stat().st_dev
    for path in _entries(folder):
        found = path.lstat()
        is_file, is_folder = stat.S_ISREG(found.st_mode), stat.S_ISDIR(found.st_mode)
        if not (is_file or is_folder) or (is_file and found.st_nlink > 1) or found.st_dev != device:
            return path
    return None


def check_overwritable(output: Path) -> None:
    """Only an empty folder, or one that holds what its own manifest lists and nothing else, is ever replaced."""
    if output.is_symlink() or not output.is_dir() or os.path.ismount(output):
        raise OutputError(f"output {output} is not a plain folder; choose another with -o")
    if Path.cwd().is_relative_to(output.resolve()):
        raise OutputError(f"output {output} is or holds the working folder; choose another with -o")
    names = [path.relative_to(output).as_posix() for path in _entries(output) if not _is_folder(path)]
    listed = _listed(output) if names else set()
    strangers = [name for name in names if name not in listed]
    if strangers:
        shown = ", ".join(strangers[:3]) + (f" and {len(strangers) - 3} more" if len(strangers) > 3 else "")
        raise OutputError(
            f"output {output} holds files that schemegen did not write ({shown}); "
            "move them or the folder away, or choose another with -o"
        )


def remove_output(folder: Path) -> None:
    """Remove what the folder's manifest lists, then the folders that are empty; anything else stays."""
    if not folder.is_dir():
        return
    for name in _listed(folder):
        (folder / name).unlink(missing_ok=True)
    for path in sorted(_entries(folder), reverse=True):
        if _is_folder(path):
            _remove_if_empty(path)
    _remove_if_empty(folder)


def _listed(output: Path) -> set[str]:
    try:
        manifest = read_manifest(output)
    except VerificationError:
        return set()
    return {*manifest.shards, *manifest.files, MANIFEST_NAME}


def _entries(folder: Path) -> Iterator[Path]:
    """Everything below, links as links; folders before what is in them."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = Path(entry.path)
            yield path
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(path)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
