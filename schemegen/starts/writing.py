"""Puts a start on disk: all of it or nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from schemegen.errors import OutputError
from schemegen.starts.kinds import Start


def write_start(start: Start, folder: str | Path | None = None) -> Path:
    """Write it to a folder that is not there yet, by default one of its own name here; the folder.

    OutputError where something is in the way, nothing to write into, or the disk refuses.
    """
    target = Path(start.folder if folder is None else folder).absolute()
    if os.path.lexists(target):
        raise OutputError(f"{target} exists; choose another folder with -o, or move it away")
    if not target.parent.is_dir():
        raise OutputError(f"there is no folder {target.parent} to write {target.name} into; make it first")
    try:
        _write(start, target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}; choose another folder with -o") from error
    return target


def _write(start: Start, target: Path) -> None:
    aside = Path(tempfile.mkdtemp(prefix=".schemegen-", dir=target.parent))
    try:
        # Not `aside` itself, which nobody else may read.
        _fill(aside / target.name, start)
        (aside / target.name).rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _fill(folder: Path, start: Start) -> None:
    for name, text in start.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
