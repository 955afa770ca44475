"""Where an output may stand: apart from its source, by what the system says the folders are and not by their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import OutputError
from schemegen.runner.workspace import partial_of

Identity = tuple[int, int]


def settled(output: Path) -> Path:
    """The output without `.` and `..`; OutputError for what cannot be a folder's name."""
    place = output.parent.resolve() / output.name if output.name not in ("", "..") else output.resolve()
    if not place.name:
        raise OutputError(f"output {output} is the root of the disk; choose another with -o")
    if len(os.fsencode(partial_of(place).name)) > 255:
        raise OutputError(f"output {place.name[:40]}... is too long a name; choose a shorter one with -o")
    return output if output.name not in ("", "..") else place


def check_output_place(output: Path, checkpoint: Checkpoint) -> None:
    """Refuse an output, or a partial folder of it, that is, holds, or lies in a folder of the source.

    Folders of the source are its root and where its shards' links lead; links and bind mounts are seen through.
    """
    if output.is_symlink():
        raise OutputError(f"output {output} is a link; give the folder itself")
    sources = {
        checkpoint.root.resolve(),
        *(checkpoint.path(shard.name).resolve().parent for shard in checkpoint.shards),
    }
    own = {identity for source in sources for identity in _identities([source])}
    above = {identity for source in sources for identity in _identities([source, *source.parents])}
    for place in (output, partial_of(output)):
        resolved = place.resolve()
        if own & set(_identities([resolved, *resolved.parents])) or above & set(_identities([resolved])):
            raise OutputError(f"output {place} overlaps the source {checkpoint.root}; choose a folder apart from it")


def _identities(folders: list[Path]) -> Iterator[Identity]:
    for folder in folders:
        try:
            found = os.stat(folder)
        except OSError:
            continue
        yield found.st_dev, found.st_ino
