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
SMALLEST_NORMAL: Final = {"BF16": 2.0**-126, "F16": 2.0**-14, "F32": 2.0**-126}

#: Scales of the dtypes that formats store: bits without the sign, and those from which on they are no number.
_SCALE_LIMITS: Final = {
    **{dtype: (bits.magnitude, bits.infinity) for dtype, bits in FLOAT_BITS.items()},
    "F8_E4M3": (0x7F, 0x7F),
    # E8M0: an exponent, without sign or zero.
    "U8": (0xFF, 0xFF),
}


def first_unusable(scales: NDArray[np.unsignedinteger[Any]], dtype: str) -> int:
    """The index in storage order of the first scale that is NaN, infinite or zero; -1 where there is none."""
    magnitude, limit = (scales.dtype.type(bits) for bits in _SCALE_LIMITS[dtype])
    sizes = (scales & magnitude).reshape(-1)
    found = sizes >= limit if dtype == "U8" else (sizes >= limit) | (sizes == 0)
    first = int(found.argmax()) if found.size else 0
    return first if found.size and found[first] else -1


def largest_magnitude(bits: NDArray[np.unsignedinteger[Any]], dtype: str) -> int:
    """The largest magnitude as bits, which grow with the value, NaN above all; 0 of nothing. No memory is taken."""
    if not bits.size:
        return 0
    magnitude = FLOAT_BITS[dtype].magnitude
    positive = int(bits.view(f"i{bits.itemsize}").max())
    negative = int(bits.max())
    return max(positive, negative & magnitude if negative > magnitude else 0)


def first_nonfinite(bits: NDArray[np.unsignedinteger[Any]], dtype: str) -> int:
    """The index in storage order of the first item that is NaN or infinite; -1 where there is none."""
    infinity = bits.dtype.type(FLOAT_BITS[dtype].infinity)
    found = ((bits & infinity) == infinity).reshape(-1)
    first = int(found.argmax()) if found.size else 0
    return first if found.size and found[first] else -1
