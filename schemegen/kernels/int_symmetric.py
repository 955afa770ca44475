"""Symmetric integers, packed or a code a byte, in compressed-tensors' arithmetic.

scale = absmax / ((2**bits - 1) / 2), rounded to the weight's dtype, and the dtype's epsilon where that gives zero;
code = weight / scale, rounded to the weight's dtype, then to an integer half to even, clamped to `bits` bits.
A word holds 32 / bits codes, lowest bits first, each with 2**(bits - 1) added, or four bytes in two's complement.

A builder's `block` is a constant that divides the group size, so that a block is straight-line code; with `alone` it is
the group size. What it returns takes pointers to weights [groups * group_size], packed and scales [groups], and counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types
from numpy import float32 as f32
from numpy import int32 as i32
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, MAGIC, TO_INTEGER, FloatFormat, f32_to_bits, inline, locator, select
from schemegen.kernels.compiler import Source
from schemegen.kernels.grids import PACKED, grid_of

# A group's scale takes a chain of dependent steps. Those of a few groups overlap when their scales come first.
TILE = 8


@inline
def larger(a: Any, b: Any) -> Any:
    """The larger of two, without a branch."""
    return select(a < b, b, a)


@inline
def smaller(a: Any, b: Any) -> Any:
    """The smaller of two, without a branch."""
    return select(b < a, b, a)


@functools.cache
def coder(floats: FloatFormat, num_bits: int, style: str = PACKED) -> Callable[[Any, Any], Any]:
    """A function (weight, scale) → code with the grid's `added`."""
    grid = grid_of(num_bits, style)
    low, high = f32(grid.low), f32(grid.high)
    origin = u32(TO_INTEGER - grid.added)
    widen, shorten = floats.widen, floats.shorten

    @inline
    def code(weight: Any, scale: Any) -> Any:
        quotient = shorten(f32(widen(weight) / scale))
        clamped = smaller(larger(quotient, low), high)
        return u32(f32_to_bits(f32(clamped + MAGIC)) - origin)

    return code


@functools.cache
def packer(floats: FloatFormat, num_bits: int, style: str = PACKED) -> Callable[[Any, int, Any], Any]:
    """A function (weights, position, scale) → the word of the weights from that position on."""
    code, field, flip = coder(floats, num_bits, style), grid_of(num_bits, style).field, flips(num_bits, style)
    count = 32 // field

    @inline
    def word(weights: Any, start: int, scale: Any) -> Any:
        packed = u32(0)
        for i in range(count):
            packed = u32(packed | u32(code(weights[start + i], scale) << u32(field * i)))
        return u32(packed ^ flip)

    return word


def flips(num_bits: int, style: str) -> np.uint32:
    """The bits of a word that its grid flips."""
    grid = grid_of(num_bits, style)
    return u32(sum(grid.flip << shift for shift in range(0, 32, grid.field)))


@functools.cache
def group_packer(
    floats: FloatFormat, num_bits: int, block: int, style: str = PACKED
) -> Callable[[Any, Any, int, int, Any], None]:
    """A function (weights, packed, start, size, scale) that fills the words of the `size` weights from `start` on."""
    word, count = packer(floats, num_bits, style), 32 // grid_of(num_bits, style).field

    @inline
    def pack(weights: Any, packed: Any, start: int, size: int, scale: Any) -> None:
        for first in range(start, start + size, block):
            for i in range(block // count):
                packed[first // count + i] = word(weights, first + i * count, scale)

    return pack


@functools.cache
def measurer(floats: FloatFormat, block: int) -> Callable[[Any, int, int], Any]:
    """A function (weights, start, size) → the largest magnitude, as bits: these grow with the value, NaN above all."""
    uint, magnitude = floats.uint, floats.magnitude

    @inline
    def absmax(weights: Any, start: int, size: int) -> Any:
        top = uint(0)
        for first in range(start, start + size, block):
            for i in range(block):
                top = larger(top, uint(weights[first + i] & magnitude))
        return top

    return absmax


@functools.cache
def scaler(floats: FloatFormat, num_bits: int, style: str = PACKED) -> Callable[[Any], Any]:
    """A function (absmax, as bits) → scale, as bits."""
    uint, epsilon, divisor = floats.uint, floats.epsilon, f32(grid_of(num_bits, style).divisor)
    widen, narrow = floats.widen, floats.narrow

    @inline
    def scale_of(top: Any) -> Any:
        scale = narrow(f32(widen(top) / divisor))
        return select(scale == uint(0), epsilon, scale)

    return scale_of


def signature(floats: FloatFormat) -> Any:
    """The numba signature that every kernel here has."""
    weight = types.CPointer(from_dtype(np.dtype(floats.uint)))
    return types.int64(weight, types.CPointer(types.uint32), weight, types.int64, types.int64)


def quantize(dtype: str, num_bits: int, block: int, alone: int, style: str = PACKED) -> Source:
    """Fills packed and scales; -1, or the position of the first NaN or infinite weight."""
    floats = FLOATS[dtype]
    absmax, scale_of = measurer(floats, block), scaler(floats, num_bits, style)
    pack, first_broken = group_packer(floats, num_bits, block, style), locator(floats)
    widen, infinity = floats.widen, floats.infinity

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, group_size: int) -> int:
        size = block if alone else group_size
        for tile in range(0, groups, TILE):
            stop = min(tile + TILE, groups)
            for group in range(tile, stop):
                top = absmax(weights, group * size, size)
                if top >= infinity:
                    return first_broken(weights, group * size)
                scales[group] = scale_of(top)
            for group in range(tile, stop):
                pack(weights, packed, group * size, size, widen(scales[group]))
        return -1

    return Source(kernel, signature(floats))


def apply(dtype: str, num_bits: int, block: int, alone: int, style: str = PACKED) -> Source:
    """Fills packed under the scales given; -1, or the position of the first NaN or infinite weight."""
    floats, count = FLOATS[dtype], 32 // grid_of(num_bits, style).field
    absmax, word, first_broken = measurer(floats, block), packer(floats, num_bits, style), locator(floats)
    widen, infinity = floats.widen, floats.infinity

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, group_size: int) -> int:
        size = block if alone else group_size
        for group in range(groups):
            scale = widen(scales[group])
            for first in range(group * size, (group + 1) * size, block):
                if absmax(weights, first, block) >= infinity:
                    return first_broken(weights, first)
                for i in range(block // count):
                    packed[first // count + i] = word(weights, first + i * count, scale)
        return -1

    return Source(kernel, signature(floats))


def recode(dtype: str, num_bits: int, block: int, alone: int, style: str = PACKED) -> Source:
    """Codes against the stored scales; -1, or the position of the first weight whose stored code is another.

    A weight or a scale that is not finite, or a scale of zero, has no code.
    """
    floats, field, flip = FLOATS[dtype], grid_of(num_bits, style).field, flips(num_bits, style)
    uint, count, mask = floats.uint, 32 // field, u32(2**field - 1)
    absmax, code, word = measurer(floats, block), coder(floats, num_bits, style), packer(floats, num_bits, style)
    widen, infinity, magnitude = floats.widen, floats.infinity, floats.magnitude

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, group_size: int) -> int:
        size = block if alone else group_size
        for group in range(groups):
            start = group * size
            scale_size = uint(scales[group] & magnitude)
            if scale_size == uint(0) or scale_size >= infinity:
                return start
            scale = widen(scales[group])
            different = u32(absmax(weights, start, size) >= infinity)
            for first in range(start, start + size, block):
                for i in range(block // count):
                    right = word(weights, first + i * count, scale)
                    different = u32(different | u32(packed[first // count + i] ^ right))
            if different == u32(0):
                continue
            for i in range(start, start + size):
                stored = u32(u32(u32(packed[i // count] ^ flip) >> u32(i % count * field)) & mask)
                if (weights[i] & magnitude) >= infinity or stored != code(weights[i], scale):
                    return i
        return -1

    return Source(kernel, signature(floats))


def decode(dtype: str, num_bits: int, block: int, alone: int, style: str = PACKED) -> Source:
    """Fills weights with code * scale, multiplied in F32 and rounded to the dtype; -1."""
    floats, grid, flip = FLOATS[dtype], grid_of(num_bits, style), flips(num_bits, style)
    field, count, mask, added = grid.field, 32 // grid.field, u32(2**grid.field - 1), i32(grid.added)
    widen, narrow = floats.widen, floats.narrow

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, group_size: int) -> int:
        size = block if alone else group_size
        for group in range(groups):
            scale = widen(scales[group])
            for first in range(group * size, (group + 1) * size, count):
                word = u32(packed[first // count] ^ flip)
                for i in range(count):
                    code = f32(i32(i32(u32(word >> u32(field * i)) & mask) - added))
                    weights[first + i] = narrow(f32(code * scale))
        return -1

    return Source(kernel, signature(floats))
