"""Asks the Hub again where that may well help: after a moment, or when the Hub says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from schemegen.checkpoint.hub.faults import is_busy, is_passing, waiting_seconds
from schemegen.checkpoint.hub.parallel import Stopped

WAITS: Final[tuple[float, ...]] = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try that follows a try which brought nothing."""
_QUESTION_WAITS: Final = 3
"""How many of them a question is worth: the cache may know the answer."""
_LONGEST_WAIT: Final = 60

Made = TypeVar("Made")


def wait_after(error: Exception, waits: Iterator[float], stop: threading.Event) -> None:
    """Return when it is time for another try; raises the error where none is worth it, Stopped when told to."""
    if not is_passing(error):
        raise error
    wait, asked = next(waits, None), waiting_seconds(error) or 0
    if wait is None or asked > _LONGEST_WAIT:
        raise error
    if stop.wait(max(wait, asked)):
        raise Stopped from None


def answered(ask: Callable[[], Made]) -> Made:
    """What a question to the Hub brings, asked again while the Hub is busy; that nobody is there is told at once."""
    waits = iter(WAITS[:_QUESTION_WAITS])
    while True:
        try:
            return ask()
        except Exception as error:
            if not is_busy(error):
                raise
            wait_after(error, waits, threading.Event())
