"""Text from outside in Markdown: on one line, and with no meaning but its own."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

#: Unicode's controls, and ends of lines and paragraphs; and marks that turn text around.
_UNPRINTED: Final = ("Cc", "Zl", "Zp")
_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ACTIVE: Final = re.compile(r"[\\`*_{}\[\]<>&|~$#!]|^[-+=]|(?<=^\d)[.)]")
_ADDRESS: Final = re.compile(r"https?://[\w.~:/?#@%&=+,;-]{1,1000}", re.ASCII)


def one_line(text: str) -> str:
    """The text with a space for whatever would end a line, and nothing that hides or turns around."""
    kept = _TURNING.sub("", text)
    return " ".join("".join(" " if _is_unprinted(character) else character for character in kept).split())


def _is_unprinted(character: str) -> bool:
    return unicodedata.category(character) in _UNPRINTED


def plain(text: str) -> str:
    """The text for a sentence, a list or a cell: what Markdown, HTML or TeX would read gets a backslash."""
    return _ACTIVE.sub(r"\\\g<0>", one_line(text))


def code(text: str) -> str:
    """The text for words between backticks, in a cell too; what would end either becomes a space."""
    return " ".join(re.sub(r"[`|]+", " ", one_line(text)).split())


def is_address(text: str) -> bool:
    """Whether the text is an address of the web that ends no link."""
    return _ADDRESS.fullmatch(text) is not None


def linked(text: str) -> str:
    """A web address as a link, any other text as `plain`."""
    return f"<{text}>" if is_address(text) else plain(text)
