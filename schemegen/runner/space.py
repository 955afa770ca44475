"""Whether the disks have room for all that a run will write: its output and, of a model on the Hub, the download."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from schemegen.checkpoint.model import Remote
from schemegen.errors import OutputError


def check_space(output: Path, folder: Path, needed: int, remote: Remote | None) -> None:
    """OutputError unless `needed` more bytes fit where `folder` will be, and what `remote` lacks in its own folder."""
    place = _standing(folder)
    missing = remote.missing_bytes if remote is not None else 0
    if remote is not None and missing:
        cache = _standing(remote.folder)
        if os.stat(cache).st_dev == os.stat(place).st_dev:
            what = f"{output} and the download that it is made from need"
            _check(place, needed + missing, what, "make room, or choose another place with -o or HF_HUB_CACHE")
            return
        advice = "make room or set HF_HUB_CACHE to another disk"
        _check(cache, missing, f"the download into {remote.folder} needs", advice)
    _check(place, needed, f"{output} needs", "make room or choose another place with -o")


def _check(place: Path, needed: int, what: str, advice: str) -> None:
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OutputError(f"{what} {_size(needed)} more and {_size(free)} are free; {advice}")


def _size(nbytes: int) -> str:
    """To four figures, so that what is lacking shows."""
    return f"{nbytes / 1e9:.2f} GB" if nbytes >= 10**10 else f"{nbytes / 1e6:,.2f} MB"


def _standing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    resolved = folder.resolve()
    return next(place for place in (resolved, *resolved.parents) if place.is_dir())
