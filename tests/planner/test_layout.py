"""Every output begins at a multiple of its item's size."""

from __future__ import annotations

import pytest

from schemegen.checkpoint.headers import DTYPE_BITS
from schemegen.formats import Piece
from schemegen.planner.layout import Block, lay_out


@pytest.mark.parametrize("first", sorted(DTYPE_BITS))
def test_items_of_any_size_are_aligned(first: str) -> None:
    dtypes = ["BOOL", "F4", first, "BF16", "F64", "I16", "U32", "C64", "U16", "F6_E2M3", "I64", "U64", "F16"]
    # Three items, or the fewest that fill whole bytes.
    blocks = [Block(Piece("", dtype, (4,)), 1, max(3, DTYPE_BITS[dtype] * 3 // 8)) for dtype in dtypes]
    offsets = [start for (start,) in lay_out([("a", [block]) for block in blocks])]
    for dtype, offset in zip(dtypes, offsets, strict=True):
        assert offset % max(1, DTYPE_BITS[dtype] // 8) == 0, dtype
    assert sorted(offsets) != offsets
