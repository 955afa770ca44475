"""Symmetric integers in the pack-quantized layout: one fused pass a group, in compressed-tensors' arithmetic.

scale = absmax / ((2**bits - 1) / 2), rounded to the weight's dtype, and the dtype's epsilon where that gives zero;
code = weight / scale, rounded to the weight's dtype, then to an integer half to even, clamped to -2**(bits - 1) and up.
Codes are stored with 2**(bits - 1) added, lowest bits first. Every builder returns a function for `native` to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numpy import float32 as f32
from numpy import int32 as i32
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, FloatFormat, bits_to_f32, f32_to_bits, inline, select

# 1.5 * 2**23: the last place of the sum is 1, so the addition rounds to an integer, half to even, and leaves it in the
# low bits. It is one vector instruction everywhere, where rint can be a call.
TO_INTEGER = f32(12582912.0)
BLOCK = 32


def coder(floats: FloatFormat, num_bits: int) -> Callable[[Any, np.float32], np.uint32]:
    """A function that gives the stored code of one weight under one scale."""
    low, high = f32(-(2 ** (num_bits - 1))), f32(2 ** (num_bits - 1) - 1)
    zero = u32(0x4B400000 - 2 ** (num_bits - 1))
    widen, shorten = floats.widen, floats.shorten

    @inline
    def code(weight: Any, scale: np.float32) -> np.uint32:
        quotient = shorten(f32(widen(weight) / scale))
        clamped = select(quotient < low, low, select(quotient > high, high, quotient))
        return u32(f32_to_bits(f32(clamped + TO_INTEGER)) - zero)

    return code


def packer(floats: FloatFormat, num_bits: int) -> Callable[[Any, int, np.float32], np.uint32]:
    """A function that codes the weights from one position on into one word."""
    code, count = coder(floats, num_bits), 32 // num_bits

    @inline
    def word(weights: Any, start: int, scale: np.float32) -> np.uint32:
        packed = u32(0)
        for i in range(count):
            packed = u32(packed | u32(code(weights[start + i], scale) << u32(num_bits * i)))
        return packed

    return word


@inline
def larger(a: Any, b: Any) -> Any:
    """The larger of two, without a branch."""
    return select(a < b, b, a)


def peak(floats: FloatFormat) -> Callable[[Any, int, int], Any]:
    """A function that gives the largest magnitude in a group, as bits; these grow with the value, NaN above all."""
    uint, magnitude = floats.uint, floats.uint(2 ** (floats.uint(0).nbytes * 8 - 1) - 1)

    @inline
    def absmax(weights: Any, start: int, size: int) -> Any:
        top = uint(0)
        whole = size - size % BLOCK
        for block in range(start, start + whole, BLOCK):
            for i in range(BLOCK):
                top = larger(top, uint(weights[block + i] & magnitude))
        for i in range(start + whole, start + size):
            top = larger(top, uint(weights[i] & magnitude))
        return top

    return absmax
