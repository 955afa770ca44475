"""What a verification found, and what it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemegen.errors import VerificationError

_SHOWN: Final = 20


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number and its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


@dataclass(frozen=True, slots=True)
class Report:
    """The checks that passed, a phrase with a count each, the bytes read for them, and how the source was found.

    `seconds` are those of the checks, without downloads and the compiling of kernels.
    """

    checks: tuple[str, ...]
    bytes_read: int
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class Findings:
    """Findings, those from threads in the order of the files they are about, and the checks that were made."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._placed: list[tuple[str, int, str]] = []
        self.checks: list[str] = []
        self.bytes_read = 0

    def add(self, finding: str) -> None:
        """Note what is wrong."""
        self.found.append(finding)

    def add_at(self, file: str, offset: int, finding: str) -> None:
        """Note from any thread what is wrong at a place; the report sorts what threads found."""
        self._placed.append((file, offset, finding))

    def checked(self, phrase: str) -> None:
        """Note what was looked at."""
        self.checks.append(phrase)

    def report(self) -> Report:
        """The report; VerificationError when anything is wrong."""
        found = [*self.found, *(finding for _, _, finding in sorted(self._placed))]
        if found:
            rest = len(found) - _SHOWN
            raise VerificationError([*found[:_SHOWN], *([f"and {rest} more"] if rest > 0 else [])])
        return Report(tuple(self.checks), self.bytes_read)
