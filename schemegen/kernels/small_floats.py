"""FP8 E4M3 and E8M0, the floats of 8 bits that codes and scales are stored in, for fused kernels.

E4M3 (OCP, `float8_e4m3fn`): no infinity, largest value 448, subnormals of 2**-9. E8M0: 2**(bits - 127), without sign or
zero. Importing this module imports numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import float32 as f32
from numpy import uint8 as u8
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, bits_to_f32, f32_to_bits, inline, select

_E8M0_BIAS = 127
_E8M0_ONE = 127


@inline
def f32_to_e4m3(value: np.float32) -> np.uint8:
    """The bits of the nearest E4M3, ties to even, subnormals included; `value` lies within -464 to 464, not NaN."""
    raw = f32_to_bits(value)
    magnitude = u32(raw & u32(0x7FFFFFFF))
    rounded = u32(u32(magnitude + u32(0x7FFFF)) + u32(u32(magnitude >> u32(20)) & u32(1)))
    normal = u32(u32(rounded - u32(120 << 23)) >> u32(20))
    # The last place of 2**14 is 2**-9, that of an E4M3 subnormal: this addition rounds exactly there.
    subnormal = u32(f32_to_bits(f32(bits_to_f32(magnitude) + f32(2.0**14))) - u32(141 << 23))
    nearest = select(magnitude < u32(121 << 23), subnormal, normal)
    return u8(nearest | u32(u32(raw >> u32(24)) & u32(0x80)))


@inline
def e4m3_to_f32(bits: np.uint8) -> np.float32:
    """The value of an E4M3, exactly."""
    magnitude = u32(bits & u8(0x7F))
    normal = u32(u32(magnitude << u32(20)) + u32(120 << 23))
    subnormal = f32_to_bits(f32(f32(np.int32(magnitude)) * f32(2.0**-9)))
    exact = select(magnitude < u32(8), subnormal, normal)
    exact = select(magnitude == u32(0x7F), u32(0x7FC00000), exact)
    return bits_to_f32(exact | u32(u32(bits & u8(0x80)) << u32(24)))


@inline
def e8m0_to_f32(bits: np.uint8) -> np.float32:
    """2**(bits - 127), a subnormal F32 for 0; infinity for 255, which is E8M0's NaN."""
    return bits_to_f32(select(u32(bits) == u32(0), u32(1 << 22), u32(u32(bits) << u32(23))))


@inline
def e8m0_reciprocal(bits: np.uint8) -> np.float32:
    """2**(127 - bits): to multiply with it is to divide by the scale, to the bit. Bits are not 255."""
    return bits_to_f32(select(u32(bits) == u32(254), u32(1 << 22), u32(u32(u32(254) - u32(bits)) << u32(23))))


@functools.cache
def mx_exponent(dtype: str, offset: int) -> Callable[[Any], Any]:
    """A function (absmax, as bits of the dtype, finite) → E8M0 scale of an MX group whose codes reach 2**offset.

    compressed-tensors' generate_mx_scales: absmax rounded to a power of two, up from 1.75 times one, over 2**offset,
    and at least 2**-127; in F16, which has no 2**-127, 1 where that rounds to zero. Where rounding leaves the dtype's
    range we keep the power of two; there it becomes infinity, and what is stored is codes of 0 beside a scale of 1.
    """
    uint, infinity = FLOATS[dtype].uint, int(FLOATS[dtype].infinity)
    mantissa = (infinity & -infinity).bit_length() - 1
    bias = (infinity >> mantissa) // 2
    three_quarters, nothing = u32(1 << mantissa - 2), u32(0 if bias == _E8M0_BIAS else _E8M0_ONE)
    below, lift = u32(max(0, offset - (_E8M0_BIAS - bias))), u32(max(0, _E8M0_BIAS - bias - offset))

    @inline
    def exponent(top: Any) -> Any:
        field = u32(u32(u32(uint(top)) + three_quarters) >> u32(mantissa))
        stored = u32(u32(select(field > below, field, below) - below) + lift)
        return u8(select(field == u32(0), nothing, stored))

    return exponent
