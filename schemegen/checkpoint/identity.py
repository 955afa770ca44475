"""Says whether a source is still the same without reading it whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from schemegen.checkpoint.assembly import CONFIG_NAME
from schemegen.checkpoint.model import Checkpoint, Shard
from schemegen.checkpoint.reading import opened, reading
from schemegen.digests import digest, file_digest
from schemegen.errors import CheckpointError
from schemegen.positional import read_into

BLOCKS: Final = 64
BLOCK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ShardIdentity:
    """What a shard is known by: name, bytes, mtime in ns, digest of its header and of 64 sampled blocks of 64 KiB."""

    name: str
    size: int
    mtime_ns: int
    header_digest: str
    sample_digest: str


def source_identity(checkpoint: Checkpoint) -> tuple[ShardIdentity, ...]:
    """The identity of every shard; CheckpointError where one changed since the checkpoint was opened."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    return tuple(_identity(checkpoint, shard, buffer) for shard in checkpoint.shards)


def side_digests(checkpoint: Checkpoint) -> Mapping[str, str]:
    """The digest of config.json and of every side file, by name."""
    names = sorted({CONFIG_NAME, *(file.name for file in checkpoint.side_files)})
    return {name: _file_digest(checkpoint, name) for name in names}


def _file_digest(checkpoint: Checkpoint, name: str) -> str:
    with reading(f"file {name!r}"):
        return file_digest(checkpoint.path(name))


def _identity(checkpoint: Checkpoint, shard: Shard, buffer: memoryview) -> ShardIdentity:
    with reading(f"shard {shard.name!r}"), opened(checkpoint.path(shard.name)) as fd:
        status = os.fstat(fd)
        if (status.st_size, status.st_mtime_ns) != (shard.size, shard.mtime_ns):
            raise CheckpointError(f"shard {shard.name!r} changed since it was opened; wait until it is complete")
        sample = digest(_blocks(fd, shard, buffer))
    return ShardIdentity(shard.name, shard.size, shard.mtime_ns, shard.header_digest, sample)


def _blocks(fd: int, shard: Shard, buffer: memoryview) -> Iterator[memoryview]:
    """The sampled blocks one after another in `buffer`; all of a file that is not larger than they are."""
    for offset in sample_offsets(shard.size):
        yield buffer[: read_into(fd, buffer, offset)]


def sample_offsets(size: int) -> list[int]:
    """Where the sampled blocks of a file begin: evenly spread, the first at its begin and the last at its end."""
    if size <= BLOCKS * BLOCK_BYTES:
        return list(range(0, size, BLOCK_BYTES))
    return [number * (size - BLOCK_BYTES) // (BLOCKS - 1) for number in range(BLOCKS)]
