"""Symmetric integers without their lowest code, packed: Kimi's own grid, found again in weights that lie on it.

scale = absmax / (2**(bits - 1) - 1), rounded to the weight's dtype, and the dtype's epsilon where that gives zero; its
two neighbours in that dtype are tried where it does not give back every weight of the group. The first that does wins,
else the first of all. Rounding first: where several do, the nearest to absmax / 7 is the most likely. Which neighbour
comes before the other does not matter: products grow with the scale, so what both give back, the one between does too.
Codes are those of `int_symmetric` but for the clamp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy import float32 as f32
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, MAGIC, FloatFormat, inline, locator, select
from schemegen.kernels.compiler import Source
from schemegen.kernels.grids import NARROW, grid_of
from schemegen.kernels.int_symmetric import TILE, group_packer, larger, measurer, scaler, signature, smaller

# Weights that are tried before the next are looked at: eight F32 fill a vector register.
FEW = 8


@functools.cache
def _restorer(floats: FloatFormat) -> Callable[[Any], Any]:
    """A function F32 → F32 rounded to the dtype. Where exponents are F32's, dropping bits is all there is to it."""
    widen, narrow, shorten = floats.widen, floats.narrow, floats.shorten

    @inline
    def through(value: Any) -> Any:
        return widen(narrow(value))

    return through if floats is FLOATS["F16"] else shorten


def _settler(floats: FloatFormat, high: int) -> Callable[[Any], Any]:
    """A function quotient → what rounds to its code: the quotient rounded to the dtype, or as it is where it may be.

    Of a weight that is code * scale rounded, it is off the code by no more than code / 2**bits of a mantissa, and
    rounding it adds as much at most: below a half in all, there is nothing to change.
    """

    @inline
    def unchanged(quotient: Any) -> Any:
        return quotient

    mantissa = int(floats.infinity & ~floats.infinity + 1).bit_length()
    return unchanged if 2 * high < 2**mantissa // 2 else floats.shorten


def fitter(floats: FloatFormat, num_bits: int, count: int) -> Callable[[Any, int, int, Any], Any]:
    """A function (weights, start, size, scale) → whether the scale gives all weights back, `count` at a time."""
    grid = grid_of(num_bits, NARROW)
    low, high = f32(grid.low), f32(grid.high)
    widen, restored, settled = floats.widen, _restorer(floats), _settler(floats, grid.high)

    @inline
    def fits(weights: Any, start: int, size: int, scale: Any) -> Any:
        for first in range(start, start + size, count):
            missed = u32(0)
            for i in range(count):
                weight = widen(weights[first + i])
                code = f32(f32(smaller(larger(settled(f32(weight / scale)), low), high) + MAGIC) - MAGIC)
                missed = u32(missed | select(restored(f32(code * scale)) != weight, u32(1), u32(0)))
            if missed != u32(0):
                return False
        return True

    return fits


def _neighbour(floats: FloatFormat, step: int) -> Callable[[Any], Any]:
    """A function (scale, as bits) → the scale `step` away, or the scale itself where that is zero or infinite."""
    uint, infinity, one = floats.uint, floats.infinity, floats.uint(1)

    @inline
    def neighbour(scale: Any) -> Any:
        other = uint(scale + one) if step > 0 else uint(scale - one)
        return select((other == uint(0)) | (other >= infinity), scale, other)

    return neighbour


def _chooser(floats: FloatFormat, num_bits: int, count: int) -> Callable[[Any, int, int, Any], Any]:
    """A function (weights, start, size, scale, as bits) → the first of three that gives all back, else the scale."""
    fits, widen = fitter(floats, num_bits, count), floats.widen
    below, above = _neighbour(floats, -1), _neighbour(floats, 1)

    @inline
    def chosen(weights: Any, start: int, size: int, scale: Any) -> Any:
        if fits(weights, start, size, widen(scale)):
            return scale
        if fits(weights, start, size, widen(below(scale))):
            return below(scale)
        if fits(weights, start, size, widen(above(scale))):
            return above(scale)
        return scale

    return chosen


def quantize(dtype: str, num_bits: int, block: int, alone: int) -> Source:
    """Fills packed and scales; -1, or the position of the first NaN or infinite weight."""
    floats = FLOATS[dtype]
    absmax, scale_of, chosen = (
        measurer(floats, block),
        scaler(floats, num_bits, NARROW),
        _chooser(floats, num_bits, min(block, FEW)),
    )
    pack, first_broken = group_packer(floats, num_bits, block, NARROW), locator(floats)
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
                scales[group] = chosen(weights, group * size, size, scales[group])
            for group in range(tile, stop):
                pack(weights, packed, group * size, size, widen(scales[group]))
        return -1

    return Source(kernel, signature(floats))
