"""Pieces of Markdown: tables, blocks, docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

BEGIN: Final = "<!-- `python -m docs.writing` writes what follows -->"
END: Final = "<!-- end of what it writes -->"
_CODE: Final = re.compile(r"(`[^`]+`)")


def between_marks(text: str, lines: Iterable[str]) -> str:
    """The text with these lines between its two marks, in place of what stood there."""
    body = "\n".join([BEGIN, "", *lines]).rstrip("\n") + f"\n\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: body, text, flags=re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; a bar in a cell is escaped."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def block(language: str, text: str) -> Iterator[str]:
    """A fenced block, and an empty line."""
    yield from (f"```{language}", text.strip("\n"), "```", "")


def code(words: Iterable[object]) -> str:
    """Words as code, with commas."""
    return ", ".join(f"`{word}`" for word in words)


def doc(documented: object) -> str:
    """An object's own docstring as Markdown; empty where it has none."""
    return escaped(inspect.cleandoc(getattr(documented, "__doc__", None) or ""))


def escaped(text: str) -> str:
    """Prose with what Markdown would take for HTML or emphasis escaped; what is code stays."""
    pieces = _CODE.split(text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([<*])", r"\\\1", piece) for piece in pieces)


def sentence(text: str) -> str:
    """With a capital and a full stop, as help texts and summaries may lack them."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ':')) else '.'}"
