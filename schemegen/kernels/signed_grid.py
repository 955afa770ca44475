"""What observer `signed_mse` computes. numba and torch code alike builds on it; nothing heavy is imported.

The scale of a group may be negative, so that its largest magnitude `top` lands on -length, length = 2**(bits - 1), the
longer end of the codes. Every place d of the grid gives codes q = weight * d / top, with the sign that puts the largest
magnitude (of two, the negative weight) below zero, rounded half to even and clamped to -length … length - 1. These
codes have a scale of least squared error, top * sum(u q) / (d sum(q q)) with u = weight * d / top, and take
sum(u q)**2 / (d**2 sum(q q)) off the error; the codes that take off most win. The places in `OTHERS` are tried with the
other sign too, which clips the largest magnitude for the sake of the other extreme. Of equal ones the first wins: the
places in order with the one sign, then those with the other.

The winner's scale is rounded to the weights' dtype, and the codes that are stored are those which every format's
rounding gives under it. A group whose `top` is below `least_top`, all zeros among them, has minmax's scale instead: its
scales would be too small to be exact. The first place, length - 0.5, with the other sign is minmax's: so the winner,
before its scale and its quotients are rounded, has no larger error than minmax.

All is F32, an operation at a time. Sums run over eight lanes, weight i in lane i % 8, then over the lanes by halves; of
a group that is not whole lanes of eight, over as many lanes as their greatest common divisor.
"""

from __future__ import annotations

from typing import Final

from schemegen.kernels.floats import SMALLEST_NORMAL

LANES: Final = 8
#: Places on the grid, and those of them that are tried with both signs.
PLACES: Final = 8
OTHERS: Final = (0, 3, 4, 5, 6, 7)

#: Lowest and highest of all places but the first, in units of 2**(bits - 1): the fewer codes, the more clipping pays.
_RANGES: Final = {
    2: (0.85, 1.725),
    3: (0.875, 1.4),
    4: (0.875, 1.225),
    5: (0.91, 1.12),
    6: (0.93, 1.07),
    7: (0.95, 1.02),
    8: (0.97, 1.005),
}


def places_of(num_bits: int) -> tuple[float, ...]:
    """Where the grid puts the largest magnitude, in units of the scale; exact in F32."""
    length = 2 ** (num_bits - 1)
    lowest, highest = (ratio * length for ratio in _RANGES[num_bits])
    step = (highest - lowest) / (PLACES - 2)
    return (length - 0.5, *(round((lowest + step * number) * 4096) / 4096 for number in range(PLACES - 1)))


def least_top(dtype: str, num_bits: int) -> float:
    """The least largest magnitude of a group whose scale is searched; exact in F32."""
    return float(SMALLEST_NORMAL[dtype] * 2 ** (num_bits - 1))
