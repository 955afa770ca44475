"""Work that waits for a network."""

from __future__ import annotations

import threading
import time

import pytest

from schemegen.checkpoint.hub.parallel import WORKERS, in_parallel


def test_results_stand_in_the_order_of_the_items() -> None:
    def work(item: int, stop: threading.Event) -> int:
        time.sleep(0.01 * (5 - item))
        return item * item

    assert in_parallel(work, range(5)) == [0, 1, 4, 9, 16]
    assert in_parallel(work, []) == []


def test_several_run_at_once() -> None:
    meeting = threading.Barrier(WORKERS, timeout=10)
    assert in_parallel(lambda item, stop: meeting.wait() >= 0, range(WORKERS)) == [True] * WORKERS


def test_the_first_error_stops_the_others_and_is_raised() -> None:
    stopped = []

    def work(item: int, stop: threading.Event) -> None:
        if item == 0:
            raise ValueError("no")
        stopped.append(stop.wait(10))

    began = time.monotonic()
    with pytest.raises(ValueError, match="no"):
        in_parallel(work, range(3))
    assert time.monotonic() - began < 5
    assert stopped == [True, True]


def test_what_does_not_listen_is_left_behind() -> None:
    release = threading.Event()

    def work(item: int, stop: threading.Event) -> None:
        if item == 0:
            raise ValueError("no")
        release.wait(30)

    began = time.monotonic()
    with pytest.raises(ValueError, match="no"):
        in_parallel(work, range(2))
    assert time.monotonic() - began < 5
    release.set()


def test_many_that_do_not_listen_cost_no_more_time_than_one() -> None:
    release, busy = threading.Event(), threading.Barrier(WORKERS, timeout=10)

    def work(item: int, stop: threading.Event) -> None:
        busy.wait()
        if item == 0:
            raise KeyboardInterrupt
        release.wait(30)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_parallel(work, range(WORKERS))
    assert time.monotonic() - began < 2
    release.set()
