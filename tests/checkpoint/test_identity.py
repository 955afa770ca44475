"""A source is known by a few of its bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from schemegen.checkpoint.identity import (
    BLOCK_BYTES,
    BLOCKS,
    ShardIdentity,
    sample_offsets,
    side_digests,
    source_identity,
)
from schemegen.checkpoint.local import open_local
from schemegen.digests import digest
from schemegen.errors import CheckpointError

BIG = 8 << 20
MTIME_NS = 1_700_000_000 * 10**9


@pytest.fixture
def folder(tmp_path: Path, write_checkpoint: Callable[..., Path]) -> Path:
    """A checkpoint whose one shard is larger than its sampled blocks."""
    data = os.urandom(1 << 16) * (BIG >> 16)
    folder = write_checkpoint(tmp_path / "x", {"a": ("U8", (BIG,), data)}, {})
    os.utime(folder / "model.safetensors", ns=(MTIME_NS, MTIME_NS))
    return folder


def identity(folder: Path) -> ShardIdentity:
    """The identity of the one shard."""
    return source_identity(open_local(folder))[0]


def flip(path: Path, offset: int) -> None:
    """Change one byte without a trace in size and time."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(MTIME_NS, MTIME_NS))


@pytest.mark.parametrize("size", [BLOCKS * BLOCK_BYTES + 1, BIG, 72_000_000_000])
def test_samples_are_spread_from_the_first_byte_to_the_last(size: int) -> None:
    offsets = sample_offsets(size)
    assert len(offsets) == BLOCKS == 64
    assert (offsets[0], offsets[-1] + BLOCK_BYTES) == (0, size)
    steps = [after - before for before, after in pairwise(offsets)]
    assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, BLOCKS * BLOCK_BYTES])
def test_a_small_file_is_sampled_whole(size: int) -> None:
    offsets = sample_offsets(size)
    assert [0, *(offset + BLOCK_BYTES for offset in offsets)][:-1] == offsets
    assert 0 <= len(offsets) * BLOCK_BYTES - size < BLOCK_BYTES


def test_the_identity_says_what_it_is_made_of(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    blocks = [content[offset : offset + BLOCK_BYTES] for offset in sample_offsets(len(content))]
    start = 8 + int.from_bytes(content[:8], "little")
    assert source_identity(open_local(folder)) == (
        ShardIdentity("model.safetensors", len(content), MTIME_NS, digest([content[:start]]), digest(blocks)),
    )


def test_a_small_shard_is_digested_whole(toy: Path) -> None:
    for found in source_identity(open_local(toy)):
        assert found.sample_digest == digest([(toy / found.name).read_bytes()])


@pytest.mark.parametrize(
    ("block", "within"), [(0, BLOCK_BYTES - 1), (1, 0), (31, 5), (31, BLOCK_BYTES - 1), (63, 0), (63, BLOCK_BYTES - 1)]
)
def test_one_sampled_byte_changes_the_sample_alone(folder: Path, block: int, within: int) -> None:
    before = identity(folder)
    flip(folder / "model.safetensors", sample_offsets(before.size)[block] + within)
    after = identity(folder)
    assert after.sample_digest != before.sample_digest
    assert (after.size, after.mtime_ns, after.header_digest) == (before.size, before.mtime_ns, before.header_digest)


def test_time_and_header_change_the_identity(folder: Path, write_shard: Callable[..., Path]) -> None:
    path = folder / "model.safetensors"
    before = identity(folder)
    os.utime(path, ns=(MTIME_NS, MTIME_NS + 1))
    assert identity(folder).mtime_ns == MTIME_NS + 1
    write_shard(path, {"b": ("U8", (BIG,), path.read_bytes()[-BIG:])})
    os.utime(path, ns=(MTIME_NS, MTIME_NS))
    after = identity(folder)
    assert (after.size, after.mtime_ns) == (before.size, before.mtime_ns)
    assert after.header_digest != before.header_digest


@pytest.mark.parametrize("change", ["time", "size"])
def test_a_shard_that_changes_meanwhile_is_told(folder: Path, change: str) -> None:
    checkpoint = open_local(folder)
    path = folder / "model.safetensors"
    if change == "size":
        os.truncate(path, 5)
    os.utime(path, ns=(MTIME_NS, MTIME_NS + (change == "time")))
    with pytest.raises(CheckpointError, match=r"shard 'model\.safetensors' changed since it was opened"):
        source_identity(checkpoint)


def test_a_shard_that_vanishes_meanwhile_is_told(folder: Path) -> None:
    checkpoint = open_local(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"shard 'model\.safetensors' cannot be read"):
        source_identity(checkpoint)


def test_side_files_and_config_have_their_digests(toy: Path) -> None:
    (toy / "sub").mkdir()
    (toy / "sub/a.py").write_bytes(b"print()")
    digests = side_digests(open_local(toy))
    assert digests == {
        "config.json": digest([(toy / "config.json").read_bytes()]),
        "sub/a.py": digest([b"print()"]),
    }


def test_a_side_file_that_vanishes_is_told(toy: Path) -> None:
    (toy / "note.txt").write_text("x")
    checkpoint = open_local(toy)
    (toy / "note.txt").unlink()
    with pytest.raises(CheckpointError, match=r"file 'note\.txt' cannot be read"):
        side_digests(checkpoint)
