"""What is done, a line a chunk: enough to go on after any interruption.

A line is appended after the chunk's bytes are written. It carries their digests, and a resumed run reads the bytes
back and compares, so a line whose bytes never reached the disk costs a second computation and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from schemegen.positional import writing


class Journal:
    """Finished chunks by key, each with the digests of its spans. Several files of one run merge."""

    def __init__(self, folder: Path, name: str = "journal.jsonl") -> None:
        self.done: Mapping[str, tuple[str, ...]] = _read_all(folder)
        self._path = folder / name
        with writing(self._path):
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            if _is_torn(self._path):
                os.write(self._file, b"\n")

    def append(self, key: str, digests: tuple[str, ...]) -> None:
        """Record a finished chunk; one write call, so that no two lines mix."""
        with writing(self._path):
            os.write(self._file, json.dumps([key, *digests]).encode() + b"\n")

    def close(self) -> None:
        """Let go of the file; it stays."""
        os.close(self._file)


def _read_all(folder: Path) -> dict[str, tuple[str, ...]]:
    done: dict[str, tuple[str, ...]] = {}
    for path in sorted(folder.glob("journal*.jsonl")):
        for line in path.read_bytes().splitlines():
            entry = _parsed(line)
            if entry:
                done[entry[0]] = tuple(entry[1:])
    return done


def _parsed(line: bytes) -> list[str]:
    """The entry of a line; nothing for one that an interruption cut off."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return []
    well_formed = isinstance(entry, list) and len(entry) > 1 and all(isinstance(item, str) for item in entry)
    return entry if well_formed else []


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
