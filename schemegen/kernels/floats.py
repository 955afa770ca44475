"""The dtypes of weights on raw bits. Nothing heavy is imported: numpy, numba and torch code alike builds on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FloatBits(NamedTuple):
    """Bits of a float dtype: all but the sign, infinity (which are those of the exponent), and epsilon."""

    magnitude: int
    infinity: int
    epsilon: int


FLOAT_BITS: Final = {
    "BF16": FloatBits(0x7FFF, 0x7F80, 0x3C00),
    "F16": FloatBits(0x7FFF, 0x7C00, 0x1400),
    "F32": FloatBits(0x7FFFFFFF, 0x7F800000, 0x34000000),
}


def first_nonfinite(bits: NDArray[np.unsignedinteger[Any]], dtype: str) -> int:
    """The index in storage order of the first item that is NaN or infinite; -1 where there is none."""
    infinity = bits.dtype.type(FLOAT_BITS[dtype].infinity)
    found = ((bits & infinity) == infinity).reshape(-1)
    first = int(found.argmax()) if found.size else 0
    return first if found.size and found[first] else -1
