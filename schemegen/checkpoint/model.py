"""A source checkpoint as its headers tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from schemegen.progress import Progress


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """One stored tensor: safetensors dtype code, shape, the shard's file name, absolute byte offset and size."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One indexed safetensors file: name (posix, relative), bytes, mtime in ns, digest of its header bytes."""

    name: str
    size: int
    mtime_ns: int
    header_digest: str


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file that travels byte for byte: posix path relative to the checkpoint, and bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A weight-like file that the index does not name; `mtp` where its header holds `mtp.*` tensors."""

    name: str
    size: int
    mtp: bool


class Remote(Protocol):
    """Where the files of a checkpoint come from that are not all on disk yet."""

    @property
    def folder(self) -> Path:
        """Where they are kept; it may not be there yet."""

    @property
    def missing_bytes(self) -> int:
        """Bytes still to download."""

    def fetch(self, checkpoint: Checkpoint, progress: Progress) -> Checkpoint:
        """Download what is missing; the checkpoint on disk."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model folder: config, indexed shards, every tensor in shard and offset order, and what lies beside them.

    `model_id` is a Hub id, `sample:NAME`, or the folder's own name; never a path.
    `index_name` is None for a single file without an index; `index_metadata` is the index's `metadata` as read.
    With a `remote`, only headers were read, and shards and side files are not in `root` before `fetched`.
    `notes` tell whoever asked for the model how it was found.
    """

    root: Path
    model_id: str
    revision: str | None
    config: Mapping[str, Any]
    config_text: str
    index_name: str | None
    index_metadata: Mapping[str, Any]
    shards: tuple[Shard, ...]
    tensors: tuple[TensorHeader, ...]
    side_files: tuple[SideFile, ...]
    unindexed: tuple[Unindexed, ...]
    remote: Remote | None = None
    notes: tuple[str, ...] = ()

    def fetched(self, progress: Progress) -> Checkpoint:
        """The same checkpoint with every file on disk; CheckpointError where one cannot be had."""
        return self if self.remote is None else self.remote.fetch(self, progress)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def path(self, name: str) -> Path:
        """Where a shard or side file of this checkpoint lies."""
        return self.root / name
