"""Float formats on raw bits, in 32-bit integer and float32 arithmetic alone: no F16C and no native half type needed.

Importing this module imports numba; only `native` does so, when a kernel has to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import intrinsic
from numpy import float32 as f32
from numpy import uint16 as u16
from numpy import uint32 as u32

from schemegen.kernels.floats import FLOAT_BITS

# 1.5 * 2**23: a sum with it is an integer, rounded half to even, that stands in the low bits. No call, as rint can be.
MAGIC = f32(1.5 * 2**23)
TO_INTEGER = 0x4B400000

F = TypeVar("F", bound=Callable[..., Any])


def inline(function: F) -> F:
    """Compile `function` into its callers, with IEEE division and no fast-math."""
    return cast(F, numba.njit(forceinline=True, error_model="numpy")(function))


@intrinsic
def select(typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """`yes if condition else no` without a branch, which would keep a loop out of vector registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return yes(numba.types.boolean, yes, yes), generate


# numba widens integer arithmetic to 64 bits: the u32(...) around each step keeps eight lanes in a vector register.


@inline
def bits_to_f32(bits: np.uint32) -> np.float32:
    """The F32 that `bits` stand for."""
    return u32(bits).view(f32)


@inline
def f32_to_bits(value: np.float32) -> np.uint32:
    """The bits of an F32."""
    return f32(value).view(u32)


@inline
def bf16_to_f32(bits: np.uint16) -> np.float32:
    """The value of a BF16, exactly."""
    return bits_to_f32(u32(bits) << u32(16))


@inline
def f32_to_bf16(value: np.float32) -> np.uint16:
    """The bits of the nearest BF16, ties to even."""
    raw = f32_to_bits(value)
    rounded = u32(u32(raw + u32(0x7FFF)) + u32(u32(raw >> u32(16)) & u32(1)))
    return u16(select(value != value, u32(raw | u32(0x400000)), rounded) >> u32(16))


@inline
def f16_to_f32(bits: np.uint16) -> np.float32:
    """The value of an F16, exactly."""
    shifted = u32(u32(bits & u16(0x7FFF)) << u32(13))
    normal = u32(shifted + u32(112 << 23))
    subnormal = f32_to_bits(f32(np.int32(bits & u16(0x3FF))) * f32(2.0**-24))
    magnitude = select(shifted < u32(1 << 23), subnormal, normal)
    magnitude = select(shifted < u32(31 << 23), magnitude, u32(shifted | u32(0x7F800000)))
    return bits_to_f32(magnitude | u32(u32(bits & u16(0x8000)) << u32(16)))


@inline
def f32_to_f16(value: np.float32) -> np.uint16:
    """The bits of the nearest F16, ties to even, subnormals included; what is too large becomes infinity."""
    raw = f32_to_bits(value)
    magnitude = u32(raw & u32(0x7FFFFFFF))
    rounded = u32(u32(magnitude + u32(0xFFF)) + u32(u32(magnitude >> u32(13)) & u32(1)))
    normal = u32(u32(rounded - u32(112 << 23)) >> u32(13))
    # The last place of 0.5 is 2**-24, that of an F16 subnormal: this addition rounds exactly there.
    subnormal = u32(f32_to_bits(f32(bits_to_f32(magnitude) + f32(0.5))) - u32(0x3F000000))
    half = select(magnitude < u32(113 << 23), subnormal, normal)
    half = select(rounded < u32(143 << 23), half, u32(0x7C00))
    half = select(value != value, u32(0x7E00), half)
    return u16(half | u32(u32(raw >> u32(16)) & u32(0x8000)))


def rounder(dropped: int) -> Callable[[np.float32], np.float32]:
    """A function that rounds an F32 to `24 - dropped` significant bits, ties to even; its exponent range stays."""
    below_half = u32((1 << dropped >> 1) - 1) if dropped else u32(0)
    mask = u32(0xFFFFFFFF << dropped & 0xFFFFFFFF)

    @inline
    def rounded(value: np.float32) -> np.float32:
        if dropped == 0:
            return value
        raw = f32_to_bits(value)
        odd = u32(u32(raw >> u32(dropped)) & u32(1))
        return bits_to_f32(u32(u32(raw + below_half) + odd) & mask)

    return rounded


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A float format on raw bits: unsigned type, mask of the magnitude, bits of infinity and of epsilon, conversions.

    `shorten` rounds an F32 to this format's precision though not to its range, which is enough before a clamp.
    """

    uint: type[np.unsignedinteger[Any]]
    magnitude: np.unsignedinteger[Any]
    infinity: np.unsignedinteger[Any]
    epsilon: np.unsignedinteger[Any]
    widen: Callable[[Any], Any]
    narrow: Callable[[Any], Any]
    shorten: Callable[[Any], Any]


def _format(dtype: str, uint: type[Any], widen: Callable[[Any], Any], narrow: Callable[[Any], Any]) -> FloatFormat:
    magnitude, infinity, epsilon = map(uint, FLOAT_BITS[dtype])
    significant = int(infinity & ~infinity + 1).bit_length()
    return FloatFormat(uint, magnitude, infinity, epsilon, widen, narrow, rounder(24 - significant))


FLOATS = {
    "BF16": _format("BF16", u16, bf16_to_f32, f32_to_bf16),
    "F16": _format("F16", u16, f16_to_f32, f32_to_f16),
    "F32": _format("F32", u32, bits_to_f32, f32_to_bits),
}


def locator(floats: FloatFormat) -> Callable[[Any, int], int]:
    """A function (weights, position) → that of the first NaN or infinite weight from there on; there is one."""
    infinity, magnitude = floats.infinity, floats.magnitude

    @inline
    def first_broken(weights: Any, position: int) -> int:
        while (weights[position] & magnitude) < infinity:
            position += 1
        return position

    return first_broken
