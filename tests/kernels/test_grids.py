"""Integer grids."""

from __future__ import annotations

import pytest

from schemegen.kernels.grids import BYTES, NARROW, PACKED, Grid, grid_of


@pytest.mark.parametrize(
    ("num_bits", "style", "grid"),
    [
        (4, PACKED, Grid(-8, 7, 4, 8, 0, 7.5)),
        (4, NARROW, Grid(-7, 7, 4, 8, 0, 7)),
        (8, PACKED, Grid(-128, 127, 8, 128, 0, 127.5)),
        (8, BYTES, Grid(-128, 127, 8, 128, 128, 127.5)),
        (4, BYTES, Grid(-8, 7, 8, 128, 128, 7.5)),
    ],
)
def test_what_a_grid_is(num_bits: int, style: str, grid: Grid) -> None:
    assert grid_of(num_bits, style) == grid


def test_a_byte_is_twos_complement() -> None:
    for num_bits in range(2, 9):
        grid = grid_of(num_bits, BYTES)
        for code in range(grid.low, grid.high + 1):
            assert (code + grid.added ^ grid.flip).to_bytes(1, "little") == code.to_bytes(1, "little", signed=True)
