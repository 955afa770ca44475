"""The fenced blocks of a Markdown page, and the commands in them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)[^`]*$")
_NAMED: Final = re.compile(r"\b[Ww]rite this as `([^`\s]+)`:$")
_PROMPT: Final = "$ "
SHELLS: Final = ("sh", "console")


@dataclass(frozen=True, slots=True)
class Command:
    """A command, the line of the page where it stands, and what the page says it prints; None where it does not say."""

    text: str
    line: int
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: language, text, the line of the page where the text begins, and the file it is to be, if any."""

    language: str
    text: str
    line: int
    file: str | None = None

    def commands(self) -> Iterator[Command]:
        """The commands of a shell block."""
        lines = self.text.splitlines()
        return _typed(lines, self.line) if self.language == "sh" else _prompted(lines, self.line)


def blocks_of(page: str) -> Iterator[Block]:
    """The fenced blocks of a page's text."""
    lines = page.splitlines()
    position = 0
    while position < len(lines):
        opened = _FENCE.match(lines[position])
        if opened is None:
            position += 1
            continue
        end = _end(lines, position + 1, opened["fence"])
        text = textwrap.dedent("\n".join(lines[position + 1 : end]) + "\n")
        language = opened["language"]
        yield Block(language, text, position + 2, None if language in SHELLS else _name(lines[:position]))
        position = end + 1


def prose_of(page: str) -> str:
    """A page's text without its fenced blocks; lines keep their numbers."""
    lines, position = page.splitlines(), 0
    while position < len(lines):
        if opened := _FENCE.match(lines[position]):
            end = _end(lines, position + 1, opened["fence"])
            lines[position : end + 1] = [""] * (end + 1 - position)
            position = end
        position += 1
    return "".join(f"{line}\n" for line in lines)


def _end(lines: Sequence[str], start: int, fence: str) -> int:
    for position in range(start, len(lines)):
        if lines[position].strip() == fence:
            return position
    raise ValueError(f"line {start}: the block is not closed")


def _name(before: Sequence[str]) -> str | None:
    """The file that the paragraph right before tells to write, in the words of `_NAMED`."""
    words: list[str] = []
    for line in reversed(before):
        if line.strip():
            words[:0] = line.split()
        elif words:
            break
    found = _NAMED.search(" ".join(words))
    return found[1] if found else None


def _typed(lines: Sequence[str], first: int) -> Iterator[Command]:
    """A command a line; one goes on where a quote is open or a backslash ends the line."""
    text, start = "", first
    for number, line in enumerate(lines, first):
        start = start if text else number
        text += line
        if _is_open(text):
            text += "\n"
        else:
            if text.strip() and not text.lstrip().startswith("#"):
                yield Command(text.strip(), start)
            text = ""


def _is_open(text: str) -> bool:
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _prompted(lines: Sequence[str], first: int) -> Iterator[Command]:
    """Commands after prompts, the lines below as what they print."""
    starts = [number for number, line in enumerate(lines) if line.startswith(_PROMPT)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        below = start + 1
        text = lines[start].removeprefix(_PROMPT)
        while _is_open(text) and below < end:
            text, below = f"{text}\n{lines[below]}", below + 1
        output = "\n".join(lines[below:end]).strip("\n")
        yield Command(text, first + start, output or None)
