"""What a repository holds at one commit: names, sizes and digests, checked as they come in, kept by Hub and commit."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from schemegen.checkpoint.hub_cache import is_digest
from schemegen.checkpoint.index import is_plain
from schemegen.checkpoint.tree import travels
from schemegen.data import cache_home
from schemegen.errors import CheckpointError, shortened

MAX_FILES: Final = 100_000
_VERSION: Final = 1


class Hasher(Protocol):
    """What hashlib makes."""

    def update(self, data: memoryview | bytes, /) -> None:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """The digest so far."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a repository: posix name, bytes, and the SHA-256 of a large one or the git blob hash of a small."""

    name: str
    size: int
    digest: str

    def hasher(self) -> Hasher:
        """What turns the file's bytes into its digest."""
        if len(self.digest) == 64:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


Listing = Mapping[str, Entry]


def read_listing(files: Iterable[tuple[Any, Any, Any]]) -> Listing:
    """The files that could travel, by name, sorted, of (name, size, digest); CheckpointError for what cannot be one."""
    found: dict[str, Entry] = {}
    for count, (name, size, digest) in enumerate(files, 1):
        if count > MAX_FILES:
            raise CheckpointError(f"lists more than {MAX_FILES:,} files; no model has so many")
        _check(name, size, digest)
        if travels(name):
            found[name] = Entry(name, size, digest)
    return dict(sorted(found.items()))


def _check(name: Any, size: Any, digest: Any) -> None:
    if not isinstance(name, str) or not is_plain(name) or not name.isprintable():
        raise CheckpointError(f"lists a file {shortened(str(name))}, which is no plain file name within the repository")
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not is_digest(digest):
        raise CheckpointError(f"lists file {shortened(name)} without a size and a digest that could be its own")


def cached_listing(hub: str, repo: str, commit: str) -> Listing | None:
    """The listing that the Hub at this address gave of the commit; what is damaged is as good as missing."""
    path = _path(hub, repo, commit)
    with suppress(OSError, ValueError, KeyError, TypeError, CheckpointError):
        if path is not None:
            content = json.loads(path.read_bytes())
            if content["version"] == _VERSION:
                return read_listing(content["files"])
    return None


def keep_listing(hub: str, repo: str, commit: str, listing: Listing) -> None:
    """Keep the listing, which a commit fixes for ever, where there is a place for it."""
    if (path := _path(hub, repo, commit)) is None:
        return
    content = {"version": _VERSION, "files": [[entry.name, entry.size, entry.digest] for entry in listing.values()]}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(path, json.dumps(content))


def forget_listing(hub: str, repo: str, commit: str) -> None:
    """Have the listing asked for anew."""
    with suppress(OSError):
        if path := _path(hub, repo, commit):
            path.unlink(missing_ok=True)


def _write_whole(path: Path, text: str) -> None:
    """Put a text there at once or, where that fails, nothing."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}.")
    begun = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        begun.replace(path)
    except BaseException:
        begun.unlink(missing_ok=True)
        raise


def _path(hub: str, repo: str, commit: str) -> Path | None:
    home = cache_home()
    # A digest, since an address may hold a password: what one Hub says of a commit says nothing of another.
    place = hashlib.sha256(hub.encode()).hexdigest()[:16]
    return home and home / "hub" / place / repo.replace("/", "--") / f"{commit}.json"
