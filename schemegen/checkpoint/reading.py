"""Reads files and JSON that somebody else wrote: what is damaged or ambiguous becomes one CheckpointError."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from schemegen.errors import CheckpointError

MAX_JSON_BYTES: Final = 100_000_000
"""What safetensors allows a header; nothing else in a checkpoint that is JSON comes near."""
MAX_NESTING: Final = 100
"""Objects and lists in one another: below what any JSON library gives up at, above what any config needs."""
_BOM: Final = b"\xef\xbb\xbf"


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn an OSError of the block into a CheckpointError that names `what`."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CheckpointError(f"{what} cannot be read ({reason}); check that it is there and readable") from error


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of the file, for reading."""
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def require_file(path: Path, what: str) -> None:
    """CheckpointError unless `path` leads to a regular file: opening a pipe would wait for ever."""
    with reading(what):
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointError(f"{what} is not a regular file; put the file itself there")


def require_utf8(name: str, kind: str, advice: str) -> None:
    """CheckpointError for a name whose bytes on disk are no UTF-8: no JSON and no model card could hold it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(f"{kind} name {os.fsencode(name)!r} is not UTF-8; {advice}") from error


def read_text(path: Path, what: str) -> str:
    """A small UTF-8 file as it stands, line ends included."""
    require_file(path, what)
    with reading(what):
        if path.stat().st_size > MAX_JSON_BYTES:
            raise CheckpointError(f"{what} is larger than {MAX_JSON_BYTES:,} bytes", "download it again")
        raw = path.read_bytes()
    if raw.startswith(_BOM):
        raise CheckpointError(f"{what} begins with a byte order mark, which loaders refuse; save it as plain UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{what} is not UTF-8 (byte {error.start})", "download it again") from error


def parse_object(
    text: str,
    what: str,
    *,
    unique: bool = True,
    parse_int: Callable[[str], int] | None = None,
    parse_float: Callable[[str], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """A JSON object, without a key that stands twice if `unique`; the hooks, `json.loads`'s, refuse with ValueError."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_keys if unique else None,
            parse_int=parse_int,
            parse_float=parse_float,
            parse_constant=parse_constant,
        )
        if unique and _is_deep(value):
            raise RecursionError
        if "\\" in text:
            _require_whole_characters(value)
    except RecursionError as error:
        raise CheckpointError(f"{what} is nested too deeply", "download it again") from error
    except ValueError as error:
        raise CheckpointError(f"{what} cannot be read as JSON ({error})", "download it again") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{what} holds no JSON object", "download it again")
    return value


def _is_deep(value: Any) -> bool:
    """Whether objects and lists are nested more than MAX_NESTING deep."""
    level = [value]
    for _ in range(MAX_NESTING + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return False
        level = [item for holder in level for item in (holder.values() if isinstance(holder, dict) else holder)]
    return True


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return found


def _require_whole_characters(value: Mapping[str, Any]) -> None:
    # An escape may spell half a character: no file name, no UTF-8 text and no other JSON parser takes it.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("an escape spells half a character") from error
