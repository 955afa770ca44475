"""Files that are on the disk when the call returns; a full disk becomes one OutputError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from schemegen.checkpoint.reading import reading
from schemegen.digests import digest
from schemegen.errors import CheckpointError
from schemegen.positional import sync_path, writing

_BLOCK: Final = 1 << 20


def whole(text: str) -> str:
    """Text from outside as UTF-8 can hold it: half a character becomes the mark for what is unknown."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def write_file(path: Path, text: str) -> str:
    """Write UTF-8 text with line ends as they are; its digest."""
    raw = whole(text).encode()
    with writing(path):
        path.write_bytes(raw)
    return digest([raw])


def copy_file(source: Path, target: Path, size: int) -> str:
    """Copy the contents of a file of `size` bytes, not its rights; its digest."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with reading(f"file {source.name!r}"):
            file = source.open("rb")
        with file, target.open("wb") as out:
            found = digest(_copied(file, out))
            copied = out.tell()
    if copied != size:
        raise CheckpointError(f"file {source.name!r} changed under the run; run again with --restart")
    return found


def _copied(file: BinaryIO, out: BinaryIO) -> Iterator[bytes]:
    while True:
        with reading(f"file {Path(file.name).name!r}"):
            block = file.read(_BLOCK)
        if not block:
            return
        out.write(block)
        yield block


def sync(folder: Path, names: Iterable[str]) -> None:
    """Flush files of the folder, and every folder on the way to them, to the disk."""
    paths = {folder / name for name in names}
    folders = {parent for path in paths for parent in path.parents if parent == folder or folder in parent.parents}
    for path in sorted(paths) + sorted(folders, reverse=True):
        with writing(path):
            sync_path(path)
