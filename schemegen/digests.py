"""The digests schemegen writes down: xxh3-128, as 32 hexadecimal digits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import xxhash

ALGORITHM: Final = "xxh3-128"
_BLOCK: Final = 1 << 20


def digest(parts: Iterable[memoryview | bytes]) -> str:
    """The digest of the concatenated parts."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part)
    return state.hexdigest()


def file_digest(path: Path) -> str:
    """The digest of a whole file, read in blocks of 1 MiB."""
    with path.open("rb") as file:
        return digest(iter(lambda: file.read(_BLOCK), b""))
