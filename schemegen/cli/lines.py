"""How far work is, in words, and progress as plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schemegen.cli import figures

LINE_SECONDS: Final = 5.0
GAP: Final = "  "


@dataclass(slots=True)
class Stretch:
    """One stretch of work: bytes in all, found done and done now, and the clock's seconds when it began."""

    label: str
    total: int
    found: int
    done: int
    began: float

    def figures(self, now: float) -> str:
        """How far it is: "1.2 of 3.3 GB  36 %  1.61 GB/s  1 s left"."""
        seconds, made = now - self.began, self.done - self.found
        share = self.done / self.total if self.total else 1.0
        words = [figures.size_of(self.done, self.total), f"{int(100 * share):3} %"]
        if made and seconds > 0:
            words += [figures.rate(made, seconds), self._time(seconds, seconds * (self.total - self.done) / made)]
        return GAP.join(words)

    def _time(self, spent: float, left: float) -> str:
        return f"{figures.coarse(left)} left" if self.done < self.total else figures.duration(spent)


class Lines:
    """Progress as plain lines: the first, the last, and one every few seconds between them."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic, every: float = LINE_SECONDS
    ) -> None:
        self._write, self._clock, self._every = write, clock, every
        self._lock = threading.Lock()
        self._stretch: Stretch | None = None
        self._told = 0.0

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Say what begins."""
        self.finish()
        with self._lock:
            self._told = self._clock()
            self._stretch = Stretch(label, total, done, done, self._told)
        found = f", {figures.size(done)} of it done before" if done else ""
        self._write(f"{label}{GAP}{figures.size(total)}{found}")

    def advance(self, nbytes: int) -> None:
        """Count, and say so when the last line is long ago."""
        with self._lock:
            if self._stretch is None:
                return
            self._stretch.done += nbytes
            now = self._clock()
            if now - self._told >= self._every and self._stretch.done < self._stretch.total:
                self._tell(self._stretch, now)

    def finish(self) -> None:
        """Say how far it came and how long it took."""
        with self._lock:
            if self._stretch is not None:
                self._tell(self._stretch, self._clock())
            self._stretch = None

    def remark(self, line: str) -> None:
        """Say what the work waits for."""
        self._write(line)

    def close(self) -> None:
        """Forget a stretch that never ended: an error tells why."""
        self._stretch = None

    def _tell(self, stretch: Stretch, now: float) -> None:
        self._told = now
        self._write(f"{stretch.label}{GAP}{stretch.figures(now)}")
