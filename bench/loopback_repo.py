"""What the loopback Hub holds, and what it gets wrong."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LARGE_BYTES: Final = 100_000
Data = bytes | mmap.mmap


@dataclass
class Repo:
    """A model: commits by revision, and the files, which are the same at every commit."""

    name: str
    files: dict[str, Data]
    refs: dict[str, str] = field(default_factory=dict)
    kind: str = "models"
    locked: str = ""
    """The error code of whoever comes without the token: RepoNotFound for a private one, GatedRepo for a gated one."""
    listed: dict[str, bytes] = field(default_factory=dict)
    """Files that the listing describes otherwise than they are."""
    hashed: bool = True
    """Whether large files are listed with their digests; one who reads headers only does not miss those."""
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """What main is."""
        return self.refs["main"]

    def tree(self) -> list[dict[str, Any]]:
        """The listing, as the Hub gives it."""
        return [self._described(name, self.listed.get(name, data)) for name, data in sorted(self.files.items())]

    def digest(self, name: str) -> str:
        """The SHA-256 of a file, computed once."""
        if name not in self.digests:
            data = self.files[name] if self.hashed else name.encode()
            self.digests[name] = hashlib.sha256(data).hexdigest()
        return self.digests[name]

    def _described(self, name: str, data: Data) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "file", "path": name, "size": len(data)}
        if is_large(name, data):
            digest = hashlib.sha256(data).hexdigest() if name in self.listed else self.digest(name)
            return {**found, "oid": "0" * 40, "lfs": {"oid": digest, "size": len(data), "pointerSize": 135}}
        blob = hashlib.sha1(b"blob %d\0" % len(data) + bytes(data), usedforsecurity=False)
        return {**found, "oid": blob.hexdigest()}


def is_large(name: str, data: Data) -> bool:
    """Whether the Hub keeps a file apart from git."""
    return name.endswith((".safetensors", ".bin", ".gguf")) or len(data) > LARGE_BYTES


@dataclass
class Fault:
    """How requests whose path matches are answered instead, `times` times; `cut` is where the body ends."""

    path: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    times: int = 1_000_000
    cut: int | None = None
    silent: float = 0.0
    ignore_range: bool = False
    sized: bool = True
    """Whether the answer says its length; otherwise it ends with the connection."""


def data_of(path: Path) -> Data:
    """A file's bytes; those of a large one stay on disk."""
    if path.stat().st_size <= LARGE_BYTES:
        return path.read_bytes()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
