"""Asymmetric integers in the pack-quantized layout, in compressed-tensors' arithmetic, which rounds after every step.

Of a group's range, widened to hold 0: scale = (high - low) / (2**bits - 1), each step rounded to the weight's dtype,
and the dtype's epsilon where that gives zero; zero point = lowest code - low / scale, each step rounded to the dtype,
clamped, then rounded to an integer half to even, and 0 where the range is nothing. code = weight / scale, rounded to
the dtype, + zero point, rounded again, then clamped and rounded to an integer. Codes are packed along a row, zero
points down the rows of a matrix, both with 2**(bits - 1) added.

`block` and `alone` are those of `int_symmetric`. Kernels take pointers to weights, packed, scales and zero points, and
counts: rows of all matrices, rows of one, groups of a row, weights of a group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types
from numpy import float32 as f32
from numpy import int16, uint16
from numpy import int32 as i32
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, MAGIC, TO_INTEGER, FloatFormat, f32_to_bits, inline, locator, select
from schemegen.kernels.compiler import Source
from schemegen.kernels.grids import PACKED, grid_of
from schemegen.kernels.int_symmetric import TILE, larger, measurer, smaller


@functools.cache
def _to_integer(num_bits: int) -> Callable[[Any], Any]:
    """A function F32 → stored code: clamped, rounded half to even, with 2**(bits - 1) added."""
    grid = grid_of(num_bits, PACKED)
    low, high = f32(grid.low), f32(grid.high)
    origin = u32(TO_INTEGER - grid.added)

    @inline
    def stored(value: Any) -> Any:
        return u32(f32_to_bits(f32(smaller(larger(value, low), high) + MAGIC)) - origin)

    return stored


@functools.cache
def _coder(floats: FloatFormat, num_bits: int) -> Callable[[Any, Any, Any], Any]:
    """A function (weight, scale, zero point) → stored code."""
    stored, widen, shorten = _to_integer(num_bits), floats.widen, floats.shorten

    @inline
    def code(weight: Any, scale: Any, zero: Any) -> Any:
        return stored(shorten(f32(shorten(f32(widen(weight) / scale)) + zero)))

    return code


@functools.cache
def _packer(floats: FloatFormat, num_bits: int) -> Callable[[Any, int, Any, Any], Any]:
    """A function (weights, position, scale, zero point) → the word of the weights from that position on."""
    code, count = _coder(floats, num_bits), 32 // num_bits

    @inline
    def word(weights: Any, start: int, scale: Any, zero: Any) -> Any:
        packed = u32(0)
        for i in range(count):
            packed = u32(packed | u32(code(weights[start + i], scale, zero) << u32(num_bits * i)))
        return packed

    return word


def _ranger(floats: FloatFormat, block: int) -> Callable[[Any, int, int], Any]:
    """A function (weights, start, size) → bits of the largest value and of the lowest one's magnitude, 0 for neither.

    As signed integers, the bits of positive values grow with the value; as unsigned ones, those of negative values grow
    with the magnitude and are above all others.
    """
    uint, magnitude = floats.uint, floats.magnitude
    signed = int16 if uint is uint16 else i32

    @inline
    def extremes(weights: Any, start: int, size: int) -> Any:
        highest, lowest = signed(0), uint(0)
        for first in range(start, start + size, block):
            for i in range(block):
                weight = weights[first + i]
                highest = larger(highest, signed(weight))
                lowest = larger(lowest, weight)
        return uint(highest), select(lowest > magnitude, uint(lowest & magnitude), uint(0))

    return extremes


def _pointer(floats: FloatFormat, num_bits: int) -> Callable[[Any, Any], Any]:
    """A function (what `_ranger` gives) → the scale, as bits, and the stored zero point."""
    uint, epsilon, lowest_code, steps = floats.uint, floats.epsilon, f32(-(2 ** (num_bits - 1))), f32(2**num_bits - 1)
    widen, narrow, stored = floats.widen, floats.narrow, _to_integer(num_bits)

    @inline
    def pointed(highest: Any, lowest: Any) -> Any:
        low = f32(-widen(lowest))
        scale = narrow(f32(widen(narrow(f32(widen(highest) - low))) / steps))
        zero = widen(narrow(f32(lowest_code - widen(narrow(f32(low / widen(scale)))))))
        # 0 / 0, where there is no range.
        zero = select(zero != zero, f32(0), zero)
        return select(scale == uint(0), epsilon, scale), stored(zero)

    return pointed


def _signature(floats: FloatFormat) -> Any:
    weight, words = types.CPointer(from_dtype(np.dtype(floats.uint))), types.CPointer(types.uint32)
    return types.int64(weight, words, weight, words, types.int64, types.int64, types.int64, types.int64)


def quantize(dtype: str, num_bits: int, block: int, alone: int) -> Source:
    """Fills packed, scales and zero points; -1, or the position of the first NaN or infinite weight."""
    floats, count, added = FLOATS[dtype], 32 // num_bits, i32(2 ** (num_bits - 1))
    extremes, pointed, word = _ranger(floats, block), _pointer(floats, num_bits), _packer(floats, num_bits)
    first_broken, widen, infinity, mask = locator(floats), floats.widen, floats.infinity, u32(2**num_bits - 1)

    def kernel(
        weights: Any, packed: Any, scales: Any, zeros: Any, all_rows: int, rows: int, groups: int, group_size: int
    ) -> int:
        size = block if alone else group_size
        lines = (rows + count - 1) // count
        for row in range(all_rows):
            line = (row // rows * lines + row % rows // count) * groups
            shift = u32(row % rows % count * num_bits)
            for tile in range(0, groups, TILE):
                stop = min(tile + TILE, groups)
                for group in range(tile, stop):
                    start = (row * groups + group) * size
                    highest, lowest = extremes(weights, start, size)
                    if larger(highest, lowest) >= infinity:
                        return first_broken(weights, start)
                    scales[row * groups + group], zero = pointed(highest, lowest)
                    before = u32(0) if shift == u32(0) else zeros[line + group]
                    zeros[line + group] = u32(before | u32(zero << shift))
                for group in range(tile, stop):
                    scale = widen(scales[row * groups + group])
                    zero = f32(i32(i32(u32(zeros[line + group] >> shift) & mask) - added))
                    start = (row * groups + group) * size
                    for first in range(start, start + size, block):
                        for i in range(block // count):
                            packed[first // count + i] = word(weights, first + i * count, scale, zero)
        return -1

    return Source(kernel, _signature(floats))


def recode(dtype: str, num_bits: int, block: int, alone: int) -> Source:
    """Codes against the stored scales and zero points; -1, or the position of the first weight with another code.

    A weight or a scale that is not finite, or a scale of zero, has no code.
    """
    floats, count, added = FLOATS[dtype], 32 // num_bits, i32(2 ** (num_bits - 1))
    uint, mask, absmax = floats.uint, u32(2**num_bits - 1), measurer(floats, block)
    code, word = _coder(floats, num_bits), _packer(floats, num_bits)
    widen, infinity, magnitude = floats.widen, floats.infinity, floats.magnitude

    def kernel(
        weights: Any, packed: Any, scales: Any, zeros: Any, all_rows: int, rows: int, groups: int, group_size: int
    ) -> int:
        size = block if alone else group_size
        lines = (rows + count - 1) // count
        for index in range(all_rows * groups):
            row, start = index // groups, index * size
            line = (row // rows * lines + row % rows // count) * groups + index % groups
            scale_size = uint(scales[index] & magnitude)
            if scale_size == uint(0) or scale_size >= infinity:
                return start
            scale = widen(scales[index])
            zero = f32(i32(i32(u32(zeros[line] >> u32(row % rows % count * num_bits)) & mask) - added))
            different = u32(absmax(weights, start, size) >= infinity)
            for first in range(start, start + size, block):
                for i in range(block // count):
                    right = word(weights, first + i * count, scale, zero)
                    different = u32(different | u32(packed[first // count + i] ^ right))
            if different == u32(0):
                continue
            for i in range(start, start + size):
                stored = u32(u32(packed[i // count] >> u32(i % count * num_bits)) & mask)
                if (weights[i] & magnitude) >= infinity or stored != code(weights[i], scale, zero):
                    return i
        return -1

    return Source(kernel, _signature(floats))


def decode(dtype: str, num_bits: int, block: int, alone: int) -> Source:
    """Fills weights with (code - zero point) * scale, multiplied in F32 and rounded to the dtype; -1."""
    floats, count, mask = FLOATS[dtype], 32 // num_bits, u32(2**num_bits - 1)
    widen, narrow = floats.widen, floats.narrow

    def kernel(
        weights: Any, packed: Any, scales: Any, zeros: Any, all_rows: int, rows: int, groups: int, group_size: int
    ) -> int:
        size = block if alone else group_size
        lines = (rows + count - 1) // count
        for index in range(all_rows * groups):
            row, scale = index // groups, widen(scales[index])
            line = (row // rows * lines + row % rows // count) * groups + index % groups
            zero = i32(u32(zeros[line] >> u32(row % rows % count * num_bits)) & mask)
            for first in range(index * size, (index + 1) * size, count):
                word = packed[first // count]
                for i in range(count):
                    code = f32(i32(i32(u32(word >> u32(num_bits * i)) & mask) - zero))
                    weights[first + i] = narrow(f32(code * scale))
        return -1

    return Source(kernel, _signature(floats))
