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
    """The checks that passed, a phrase with a count each, and the bytes read for them."""

    checks: tuple[str, ...]
    bytes_read: int


class Findings:
    """Findings as they come, from any thread, and the checks that were made."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.checks: list[str] = []
        self.bytes_read = 0

    def add(self, finding: str) -> None:
        """Note what is wrong."""
        self.found.append(finding)

    def checked(self, phrase: str) -> None:
        """Note what was looked at."""
        self.checks.append(phrase)

    def report(self) -> Report:
        """The report; VerificationError when anything is wrong."""
        if self.found:
            rest = len(self.found) - _SHOWN
            raise VerificationError([*self.found[:_SHOWN], *([f"and {rest} more"] if rest > 0 else [])])
        return Report(tuple(self.checks), self.bytes_read)
