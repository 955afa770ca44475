"""Does many things at once that wait for a network, and leaves at once when told to."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

WORKERS: Final = 8
"""Files at once, as many as the Hub's client takes."""
_PARTING_SECONDS: Final = 1.0
"""What all of them together get to leave."""

Item = TypeVar("Item")
Made = TypeVar("Made")


class Stopped(Exception):
    """Another piece of work has failed, or a person has had enough; never seen outside."""


def in_parallel(work: Callable[[Item, threading.Event], Made], items: Sequence[Item]) -> list[Made]:
    """What `work` makes of each item, in order; the first error ends all.

    `work` looks at the event now and then. Threads do not outlive the process: one that waits for a silent server
    must not keep a person waiting who pressed Ctrl-C.
    """
    pending: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Made | BaseException]] = queue.SimpleQueue()
    for task in enumerate(items):
        pending.put(task)
    stop = threading.Event()
    threads = [
        threading.Thread(target=_labour, args=(work, pending, done, stop), daemon=True)
        for _ in range(min(WORKERS, len(items)))
    ]
    for thread in threads:
        thread.start()
    try:
        return _collect(done, len(items))
    finally:
        stop.set()
        until = time.monotonic() + _PARTING_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


def _labour(
    work: Callable[[Item, threading.Event], Made],
    pending: queue.SimpleQueue[tuple[int, Item]],
    done: queue.SimpleQueue[tuple[int, Made | BaseException]],
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        try:
            number, item = pending.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((number, work(item, stop)))
        except BaseException as error:
            done.put((number, error))
            return


def _collect(done: queue.SimpleQueue[tuple[int, Made | BaseException]], count: int) -> list[Made]:
    found: dict[int, Made] = {}
    while len(found) < count:
        number, made = done.get()
        if isinstance(made, BaseException):
            raise made
        found[number] = made
    return [found[number] for number in range(count)]
