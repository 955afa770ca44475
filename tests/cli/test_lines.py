"""Progress as plain lines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from schemegen.cli.lines import Lines, Stretch

GB = 10**9


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def lines(clock: Clock, told: list[str]) -> Lines:
    return Lines(told.append, clock, every=5.0)


def test_short_work_is_a_first_and_a_last_line(lines: Lines, clock: Clock, told: list[str]) -> None:
    lines.start("quantize", 3_280_000_000)
    for _ in range(328):
        clock.now += 0.006
        lines.advance(10_000_000)
    lines.finish()
    assert told == ["quantize  3.28 GB", "quantize  3.3 of 3.3 GB  100 %  1.67 GB/s  1.97 s"]


def test_long_work_is_told_every_few_seconds(lines: Lines, clock: Clock, told: list[str]) -> None:
    lines.start("quantize", 20 * GB)
    for _ in range(20):
        clock.now += 1.0
        lines.advance(GB)
    lines.finish()
    assert told == [
        "quantize  20.0 GB",
        "quantize  5.0 of 20.0 GB   25 %  1.00 GB/s  15 s left",
        "quantize  10.0 of 20.0 GB   50 %  1.00 GB/s  10 s left",
        "quantize  15.0 of 20.0 GB   75 %  1.00 GB/s  5 s left",
        "quantize  20.0 of 20.0 GB  100 %  1.00 GB/s  20.0 s",
    ]


def test_work_done_before_counts_for_the_share_and_not_for_the_rate(
    lines: Lines, clock: Clock, told: list[str]
) -> None:
    lines.start("quantize", 10 * GB, done=4 * GB)
    clock.now += 6.0
    lines.advance(3 * GB)
    assert told == [
        "quantize  10.0 GB, 4.00 GB of it done before",
        "quantize  7.0 of 10.0 GB   70 %  500 MB/s  6 s left",
    ]


def test_a_stretch_that_follows_ends_the_one_before(lines: Lines, clock: Clock, told: list[str]) -> None:
    lines.start("quantize", GB)
    clock.now += 1.0
    lines.advance(GB)
    lines.start("verify", 2 * GB)
    assert told[1:] == ["quantize  1.0 of 1.0 GB  100 %  1.00 GB/s  1.00 s", "verify  2.00 GB"]


def test_a_stretch_that_never_ended_is_not_told_as_done(lines: Lines, told: list[str]) -> None:
    lines.start("quantize", GB)
    lines.advance(GB // 2)
    lines.close()
    lines.finish()
    lines.advance(1)
    assert told == ["quantize  1.00 GB"]


def test_no_byte_is_lost_between_threads(lines: Lines, clock: Clock, told: list[str]) -> None:
    lines.start("quantize", 8_000)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8_000):
            pool.submit(lines.advance, 1)
    clock.now += 1.0
    lines.finish()
    assert told[-1] == "quantize  8.0 of 8.0 kB  100 %  8.00 kB/s  1.00 s"


def test_nothing_to_do_is_all_done() -> None:
    assert Stretch("copy", 0, 0, 0, 1.0).figures(1.0) == "0 of 0 B  100 %"


def test_a_stretch_that_just_began_tells_no_rate() -> None:
    assert Stretch("copy", 10 * GB, 0, 0, 1.0).figures(1.0) == "0.0 of 10.0 GB    0 %"
    assert Stretch("copy", 10 * GB, 0, GB, 1.0).figures(1.0) == "1.0 of 10.0 GB   10 %"
