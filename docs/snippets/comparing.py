"""Compares what a page says a command prints with what it prints."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

#: What differs from run to run and from machine to machine, and what stands for it.
_VARIES: Final = (
    (re.compile(r"\d[\d.,]* ?(?:ms|s|[kMG]B/s)(?![\w/])"), "TIME"),
    (re.compile(r"\b\d+\.\d+\.\d+(?:[.\-+]?\w+)*"), "VERSION"),
    (re.compile(r"(?<![\w./:])/(?:[\w.+-]+/)*([\w.+-]+)"), r"PATH/\1"),
    (re.compile(r"(-|=|─|━){4,}"), "RULE"),
    (re.compile(r"\s+"), " "),
)
#: Lines of progress, and of kernels that a machine compiles once.
_PASSING: Final = re.compile(r"\d+ % |^compiling kernels for ")
ANY: Final = "..."


def difference(told: str, printed: str) -> str | None:
    """None where they agree, else a unified diff of the two, as compared."""
    expected, found = _lines(told), _lines(printed)
    if _agree(expected, found):
        return None
    return "\n".join(difflib.unified_diff(expected, found, "the page says", "it prints", lineterm="", n=20))


def _lines(text: str) -> list[str]:
    """Without lines that come by the clock or once on a machine, and with what varies replaced."""
    kept = (line.rstrip() for line in text.strip("\n").splitlines() if not _PASSING.search(line))
    return [_plain(line) for line in kept]


def _plain(line: str) -> str:
    for pattern, word in _VARIES:
        line = pattern.sub(word, line)
    return line.strip()


def _agree(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Whether the lines agree, `...` being any number of lines."""
    parts = [r"(?:.*\n)*?" if line == ANY else re.escape(line) + r"\n" for line in expected]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in found)) is not None
