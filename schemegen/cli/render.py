"""All that reaches a person: results on stdout, notes and progress on stderr. The only module that knows a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from schemegen.cli.lines import GAP, Lines, Stretch
from schemegen.errors import escaped
from schemegen.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_NARROWEST: Final = 24
_RESULTS: Final[ContextVar[TextIO | None]] = ContextVar("results", default=None)
"""Where results go while stdout is kept for them; None: stdout."""


def text(*lines: str) -> None:
    """Lines of a result, on stdout."""
    # Not click.echo: it takes an ASCII stream for a mistake and writes UTF-8 to it.
    print(*lines, sep="\n", flush=True, file=results())


def data(value: Any) -> None:
    """A result as JSON, on stdout; what JSON does not know, such as a path, becomes text."""
    text(json.dumps(value, default=str))


def results() -> TextIO:
    """The stream of results: stdout, also while others' prints are kept out of it."""
    return _RESULTS.get() or sys.stdout


@contextlib.contextmanager
def results_alone() -> Iterator[None]:
    """Keep stdout for results: what others print meanwhile, such as a plugin as it is imported, goes to stderr."""
    token = _RESULTS.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


def note(line: str) -> None:
    """A remark on stderr. A closed stderr must not end the work that the remark is about."""
    if sys.stderr is None:  # closed from the start: print would take stdout
        return
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        lose(sys.stderr)


def lose(stream: TextIO) -> None:
    """Lose what a stream still holds, so that the interpreter does not stumble over it once more on its way out."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def heading(line: str) -> str:
    """A line that stands out on a terminal."""
    shown = escaped(line)
    return click.style(shown, bold=True) if is_terminal(results()) and not os.environ.get("NO_COLOR") else shown


def fields(pairs: Sequence[tuple[str, str | Sequence[str]]], indent: str = "") -> list[str]:
    """Labels and values in two columns; several values stand one below another, a label without one is left out.

    On a terminal long values wrap between words.
    """
    width = max((len(label) for label, _ in pairs), default=0)
    room = _room(len(indent) + width + len(GAP))
    return [
        f"{indent}{'' if position else label:{width}}{GAP}{line}"
        for label, given in pairs
        for position, line in enumerate(_lines([given] if isinstance(given, str) else given, room))
    ]


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), total: Sequence[str] = ()
) -> list[str]:
    """Rows in columns under a head; the columns named in `right` hold numbers. The last column wraps on a terminal.

    A row of totals is ruled off from what it sums up.
    """
    shown = [[escaped(cell) for cell in row] for row in (*rows, *([total] if total else []))]
    widths = [max(len(row[column]) for row in [head, *shown]) for column in range(len(head))]
    if total:
        columns = zip(head, widths, total, strict=True)
        shown.insert(-1, ["-" * width if name in right and cell else "" for name, width, cell in columns])
    room = _room(sum(widths[:-1]) + len(GAP) * len(widths[:-1]))
    body = [_line(part, head, widths, right) for row in shown for part in _wrapped(row, room)]
    return [heading(_line(head, head, widths, right)), *body]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of words in columns, without a head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, row, widths, ()) for row in rows]


def _line(row: Sequence[str], head: Sequence[str], widths: Sequence[int], right: Collection[str]) -> str:
    cells = zip(row, head, widths, strict=True)
    padded = [cell.rjust(width) if name in right else cell.ljust(width) for cell, name, width in cells]
    return GAP.join(padded).rstrip()


def _lines(values: Iterable[str], room: int | None) -> Iterator[str]:
    for value in values:
        yield from _parts(escaped(value), room, GAP)


def _wrapped(row: Sequence[str], room: int | None) -> Iterator[Sequence[str]]:
    """The row and, where its last cell needs more than `room`, rows that hold the rest of it alone."""
    first, *rest = _parts(row[-1], room)
    yield [*row[:-1], first]
    yield from ([*[""] * (len(row) - 1), part] for part in rest)


def _parts(text: str, room: int | None, hang: str = "") -> list[str]:
    """Text in lines of `room` characters, all but the first behind `hang`; a longer word, as names are, stays whole."""
    if room is None or len(text) <= room:
        return [text]
    return textwrap.wrap(text, room, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def _room(taken: int) -> int | None:
    """Characters left of a terminal's line; None without a terminal, where nothing wraps."""
    return max(_NARROWEST, shutil.get_terminal_size().columns - taken) if is_terminal(results()) else None


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal that moves its cursor when told."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """A Progress on stderr for one command: a bar on a terminal, a line now and then elsewhere."""
    drawn = Bar() if is_terminal(sys.stderr) else Lines(note)
    try:
        yield drawn
    finally:
        drawn.close()


class Bar:
    """Progress as a bar on the terminal that stderr is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bar: RichProgress | None = None
        self._stretch: Stretch | None = None

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Draw an empty bar below those that are full."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.close()
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[figures]}")
        with self._lock:
            self._stretch = Stretch(label, total, done, done, time.monotonic())
            self._bar = RichProgress(*columns, console=Console(stderr=True), redirect_stdout=False)
            self._bar.add_task(label, total=total, completed=done, figures=self._stretch.figures(self._stretch.began))
            self._bar.start()

    def advance(self, nbytes: int) -> None:
        """Count; the bar redraws itself ten times a second."""
        with self._lock:
            if self._bar is not None and self._stretch is not None:
                self._stretch.done += nbytes
                now = self._stretch.figures(time.monotonic())
                self._bar.update(self._bar.task_ids[0], completed=self._stretch.done, figures=now)

    def finish(self) -> None:
        """Leave the bar as it is and the cursor below it."""
        self.close()

    def remark(self, line: str) -> None:
        """Say what the work waits for; no bar stands below it."""
        self.close()
        note(line)

    def close(self) -> None:
        """Give the terminal back; an interrupted bar stays where it was."""
        with self._lock:
            if self._bar is not None:
                with contextlib.suppress(OSError):
                    self._bar.stop()
            self._bar = self._stretch = None
