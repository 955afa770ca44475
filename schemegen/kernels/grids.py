"""Integer grids: which codes there are, and how a code is stored. Nothing heavy is imported."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

#: Bits of integers that are stored packed, or one a byte.
INT_BITS: Final = range(2, 9)
#: Styles: codes packed in words, the same without the lowest code, and a code a byte.
PACKED: Final = "packed"
NARROW: Final = "narrow"
BYTES: Final = "bytes"


class Grid(NamedTuple):
    """Codes from `low` to `high`, stored in `field` bits each: `added` is added, then the bits of `flip` are flipped.

    A symmetric scale is the largest magnitude over `divisor`.
    """

    low: int
    high: int
    field: int
    added: int
    flip: int
    divisor: float


@functools.cache
def grid_of(num_bits: int, style: str) -> Grid:
    """The grid of so many bits in a style. A byte holds two's complement: 128 added, and the top bit flipped."""
    top = 2 ** (num_bits - 1)
    if style == NARROW:
        return Grid(1 - top, top - 1, num_bits, top, 0, top - 1)
    field, added, flip = (8, 128, 128) if style == BYTES else (num_bits, top, 0)
    return Grid(-top, top - 1, field, added, flip, (2**num_bits - 1) / 2)
