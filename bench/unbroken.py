"""What the interruption tests hold their outputs to: one run that nobody interrupts, and a watch over the path."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bench.compare import file_differences
from bench.process import ROOT, FailedError, apply, measured
from bench.workspace import Workspace

POLL = 0.002


def partial(output: Path) -> Path:
    """Where the work on `output` lies until it is finished."""
    return output.with_name(f"{output.name}.partial")


def listing(folder: Path) -> dict[str, int]:
    """Relative path and size of every file under a folder; empty where there is none."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True, slots=True)
class Unbroken:
    """The finished folder of one undisturbed run, how long it took and after how long the work folder appeared."""

    folder: Path
    files: dict[str, int]
    seconds: float
    partial_after: float

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    def check(self, output: Path) -> None:
        """A FailedError unless every file of `output` equals this run's, byte for byte, and no work is left over."""
        if differences := list(file_differences(output, self.folder)):
            raise FailedError("the output differs from an unbroken run's:\n" + "\n".join(differences))
        if partial(output).exists():
            raise FailedError(f"{partial(output)} is left although the run is finished")


def run_unbroken(space: Workspace, source: Path) -> Unbroken:
    """Apply twice, the first time to warm up."""
    measured(apply(source, space.output("unbroken")))
    folder = space.output("unbroken")
    began, appeared = time.perf_counter(), 0.0
    process = start(apply(source, folder))
    while process.poll() is None:
        if not appeared and partial(folder).exists():
            appeared = time.perf_counter() - began
        time.sleep(POLL)
    finish(process)
    return Unbroken(folder, listing(folder), time.perf_counter() - began, appeared)


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command with its output kept for `finish`."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, text=True)


def finish(process: subprocess.Popen[str], expected: int = 0) -> str:
    """Wait for a process and give what it printed; a FailedError on another exit code than expected."""
    said, _ = process.communicate()
    if process.returncode != expected:
        raise FailedError(f"exit code {process.returncode} instead of {expected}:\n{said}")
    return said


@dataclass(slots=True)
class Watch:
    """Looks at the output path every 2 ms; whatever stands there must be the finished folder, file for file."""

    output: Path
    expected: dict[str, int]
    looks: int = 0
    _violation: str | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def look(self) -> None:
        """One look, at any moment."""
        self.looks += 1
        if self.output.exists() and (found := listing(self.output)) != self.expected:
            self._violation = self._violation or f"an unfinished folder stood at {self.output}: {sorted(found)}"

    def __enter__(self) -> Watch:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.look()
        if self._violation and error is None:
            raise FailedError(self._violation)

    def _run(self) -> None:
        while not self._stop.wait(POLL):
            self.look()
