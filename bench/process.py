"""Runs a command as a whole process and measures it: seconds, `sync` afterwards, peak resident memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEME = "kimi-k2-int4"
# ru_maxrss is in bytes on macOS, in units of 1024 bytes elsewhere.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process: wall seconds, seconds of the `sync` after it, peak resident bytes."""

    seconds: float
    sync: float
    rss: int

    @property
    def synced(self) -> float:
        """Seconds until the bytes were on the disk."""
        return self.seconds + self.sync


class FailedError(RuntimeError):
    """A command that should have succeeded did not; the message ends with what it printed."""


def schemegen(*arguments: str | Path) -> list[str]:
    """The command line of the package under test, run by this very interpreter."""
    return [sys.executable, "-m", "schemegen", *map(str, arguments)]


def apply(model: str | Path, output: Path, *options: str) -> list[str]:
    """The command line of one `apply` of the benchmark's scheme."""
    return schemegen("apply", SCHEME, model, "-o", output, *options)


def measured(command: Sequence[str], *, flush: bool = True) -> Run:
    """Run to the end and measure; with `flush` the disk is brought to rest before and after.

    Peak memory is the kernel's count for the process. It starts at the parent's, so the parent must stay small.
    """
    if flush:
        os.sync()
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(max(0, output.tell() - 4000))
            said = output.read().decode(errors="replace")
            raise FailedError(f"{' '.join(command)} gave exit code {process.returncode}:\n{said}")
    return Run(seconds, _sync() if flush else 0.0, usage.ru_maxrss * RSS_UNIT)


def alternate(sides: Mapping[str, Callable[[], Run]], rounds: int, *, cold: str = "") -> dict[str, list[Run]]:
    """Run every side but the one named `cold` once to warm up, then all in turn, every other round backwards."""
    runs: dict[str, list[Run]] = {name: [] for name in sides}
    for name, side in sides.items():
        if name != cold:
            side()
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            runs[name].append(sides[name]())
            print(f"  {name}: {runs[name][-1].seconds:.2f} s, sync {runs[name][-1].sync:.2f} s", file=sys.stderr)
    return runs


def median(runs: Iterable[Run], figure: Callable[[Run], float] = lambda run: run.seconds) -> float:
    """The median of one figure over runs."""
    return statistics.median(map(figure, runs))


def _sync() -> float:
    began = time.perf_counter()
    os.sync()
    return time.perf_counter() - began
