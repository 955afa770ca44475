"""Chunks are handed out once each; a batch holds only what goes together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemegen.api import plan
from schemegen.checkpoint.sample import write_sample
from schemegen.planner import Action, Chunk, chunks_of, plan_chunks
from schemegen.runner.feed import Feed

SMALL = 4096


@pytest.fixture(scope="module")
def chunks(sample_folder: Path) -> list[Chunk]:
    made = plan("kimi-k2-int4", sample_folder)
    formats = [None if tensor.format is None else made.format_of(tensor) for tensor in made.tensors]
    return [
        chunk
        for tensor, format in zip(made.tensors, formats, strict=True)
        for chunk in chunks_of(tensor, format, SMALL)
    ]


def drained(feed: Feed, most_bytes: int) -> list[tuple[Chunk, ...]]:
    return list(iter(lambda: feed.take(most_bytes), ()))


def test_without_room_chunks_come_one_by_one_in_order(chunks: list[Chunk]) -> None:
    assert drained(Feed(iter(chunks)), 0) == [(chunk,) for chunk in chunks]


@pytest.mark.parametrize("room", [1, 2 * SMALL, 5 * SMALL, 10**9])
def test_batches_hold_what_goes_together_within_the_room(chunks: list[Chunk], room: int) -> None:
    batches = drained(Feed(iter(chunks), {"int4"}), room)
    assert [chunk for batch in batches for chunk in batch] == chunks
    for batch in batches:
        kinds = {(c.tensor.action, c.tensor.format, c.tensor.source.dtype, c.shape[2]) for c in batch}
        assert len(kinds) == 1
        assert len(batch) == 1 or (batch[0].tensor.action is Action.QUANTIZE and sum(c.nbytes for c in batch) <= room)
    full = [batch for batch in batches if len(batch) > 1]
    assert bool(full) == (room >= 2 * SMALL)


def test_a_batch_reaches_over_the_tensors_of_experts_that_are_stored_alone(tmp_path: Path) -> None:
    write_sample("qwen3.6-moe", tmp_path, experts="separate")
    made = plan("kimi-k2-int4", tmp_path)
    chunks = (chunk for tensor in made.tensors for chunk in plan_chunks(made, tensor))
    batches = drained(Feed(chunks, made.formats_used), 10**9)
    assert max(len({chunk.tensor.name for chunk in batch}) for batch in batches) > 1


def test_threads_share_the_chunks(chunks: list[Chunk]) -> None:
    feed = Feed(iter(chunks))
    with ThreadPoolExecutor(8) as pool:
        taken = [batch for batches in pool.map(lambda _: drained(feed, 3 * SMALL), range(8)) for batch in batches]
    assert sorted(c.key for batch in taken for c in batch) == sorted(c.key for c in chunks)


def test_after_a_stop_nothing_comes(chunks: list[Chunk]) -> None:
    feed = Feed(iter(chunks))
    assert feed.take(0)
    feed.stop()
    assert feed.take(0) == ()
