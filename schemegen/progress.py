"""How long work tells how far it is. The command line draws it; a library user may leave it out."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Progress(Protocol):
    """Called from several threads."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """A stretch of work of `total` bytes begins, `done` of them from an earlier run."""

    def advance(self, nbytes: int) -> None:
        """`nbytes` more are done."""

    def finish(self) -> None:
        """The stretch ends."""


@runtime_checkable
class Remarks(Protocol):
    """What a Progress may have beside, and need not: a place for remarks."""

    def remark(self, line: str) -> None:
        """Show a line, between stretches."""


def remark(progress: Progress, line: str) -> None:
    """Have a progress show a line, where it has a place for remarks."""
    if isinstance(progress, Remarks):
        progress.remark(line)


class Silent:
    """A Progress that says nothing."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def advance(self, nbytes: int) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""
