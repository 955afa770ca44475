"""Many names as few patterns: "layers.{0-39}.mlp.experts.{0-255}.{gate,up}_proj"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

Box = tuple[tuple[str, ...], ...]
"""For each dotted word of a name the words that stand there: all names that can be made of them."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")


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
        return f"{{{spans(map(int, words))}}}"
    start = _shared(words)
    end = _shared([word[start:][::-1] for word in words])
    inner = ",".join(word[start : len(word) - end] for word in words)
    return f"{words[0][:start]}{{{inner}}}{words[0][len(words[0]) - end :]}"


def _shared(words: Sequence[str]) -> int:
    """How many characters all words begin with."""
    alike = (len({*characters}) == 1 for characters in zip(*words, strict=False))
    return sum(takewhile(bool, alike))


def spans(numbers: Iterable[int]) -> str:
    """Numbers as a rule's `layers` names them: "0-2,4,6-9"."""
    found: list[list[int]] = []
    for number in sorted({*numbers}):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
