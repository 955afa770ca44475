"""Layers as a rule names them: "0-2,-1", numbers below 0 counting from the end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

LAYERS_PATTERN: Final = r"-?[0-9]{1,6}(--?[0-9]{1,6})?(,-?[0-9]{1,6}(--?[0-9]{1,6})?)*"
_SPAN: Final = re.compile(r"(-?\d+)(?:-(-?\d+))?")


def layer_spans(layers: str, depth: int) -> list[tuple[int, int]]:
    """The inclusive spans that "0-2,-1" names among `depth` layers; negative numbers count from the end."""
    return [
        (first + depth if first < 0 else first, last + depth if last < 0 else last)
        for first, last in layer_ends(layers)
    ]


@lru_cache(maxsize=256)
def layer_ends(layers: str) -> tuple[tuple[int, int], ...]:
    """The first and last numbers of the spans that "0-2,-1" names, as written."""
    found = (span.groups() for span in map(_SPAN.fullmatch, layers.split(",")) if span is not None)
    return tuple((int(first), int(last or first)) for first, last in found)


def spans_of(chosen: Iterable[int], known: Iterable[int] | None = None) -> str:
    """Numbers as `layers` names them: "0-2,5". Where some are `known`, a span goes over those that are not."""
    wanted, before = set(chosen), False
    runs: list[list[int]] = []
    for number in range(max(wanted, default=-1) + 1) if known is None else sorted(known):
        if number in wanted and before:
            runs[-1][1] = number
        elif number in wanted:
            runs.append([number, number])
        before = number in wanted
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
