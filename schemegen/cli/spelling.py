"""Many names as few patterns: "layers.{0-39}.mlp.experts.{0-255}.{gate,up}_proj"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from schemegen.layers import spans_of

Box = tuple[tuple[str, ...], ...]
"""For each dotted word of a name the words that stand there: all names that can be made of them."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")
_BETWEEN: Final = re.compile(r"(_|[0-9]+)")
"""What cuts a word into those that a person would group."""


def spelled(names: Iterable[str]) -> dict[str, list[str]]:
    """Patterns that together stand for the names and no other, each with its names, in the order of the first ones."""
    boxes: dict[Box, list[str]] = {tuple((word,) for word in name.split(".")): [name] for name in names}
    for place in reversed(range(max(map(len, boxes), default=0))):
        boxes = _united(boxes, place)
    return {".".join(map(_word, box)): members for box, members in boxes.items()}


def _united(boxes: dict[Box, list[str]], place: int) -> dict[Box, list[str]]:
    """Boxes that differ in one place alone become one."""
    alike: dict[tuple[Box, Box | None], tuple[list[str], list[str]]] = {}
    for box, members in boxes.items():
        rest = (box[:place], box[place + 1 :]) if place < len(box) else (box, None)
        words, names = alike.setdefault(rest, ([], []))
        words += box[place] if place < len(box) else ()
        names += members
    return {
        before if after is None else (*before, tuple(sorted(words)), *after): names
        for (before, after), (words, names) in alike.items()
    }


def _word(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    if all(map(_NUMBER.fullmatch, words)):
        return f"{{{spans_of(map(int, words))}}}"
    cut = [_BETWEEN.split(word) for word in words]
    start = _shared(cut)
    end = _shared([pieces[start:][::-1] for pieces in cut])
    inner = ",".join("".join(pieces[start : len(pieces) - end]) for pieces in cut)
    return f"{''.join(cut[0][:start])}{{{inner}}}{''.join(cut[0][len(cut[0]) - end :])}"


def _shared(words: Sequence[Sequence[str]]) -> int:
    """How many pieces all words begin with."""
    alike = (len({*pieces}) == 1 for pieces in zip(*words, strict=False))
    return sum(takewhile(bool, alike))
