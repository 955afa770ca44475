"""Symmetric INT4 and INT8 of BF16 weights by observer `mse`, fused, pack-quantized: the bits of `torch_searched`.

A group's errors are added up in the order of `torch_sums`, for groups of whole sixteens that need no more than its
first level. Weight / scale is rounded to BF16, of 8 significant bits: no quotient of two such numbers lies nearer than
2**-17 of itself to the middle of two, so that the product with the F32 reciprocal rounds to the same. Weights are
divided by small scales, whose reciprocals are too large.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import types
from numpy import float32 as f32
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, MAGIC, bf16_to_f32, bits_to_f32, f32_to_bf16, inline, locator, select
from schemegen.kernels.compiler import Source
from schemegen.kernels.int_search_signed import extremes, splat
from schemegen.kernels.int_symmetric import group_packer, larger, scaler
from schemegen.kernels.signed_grid import LANES
from schemegen.kernels.vector_sums import sum_in_order
from schemegen.kernels.vectors import (
    add,
    divide,
    larger_lanes,
    loader,
    looked_up,
    multiply,
    shortened,
    smaller_lanes,
    subtract,
)

BF16 = FLOATS["BF16"]
INFINITY = u32(0x7F800000)
LARGEST = f32(2.0**128 - 2.0**120)
SMALL = f32(2.0**-100)


@functools.cache
def power_of(num_bits: int, is_small: bool) -> Callable[[Any, int, Any, Any, Any], Any]:
    """A function (weights, position, scale, its reciprocal, powers) → |weight - restored| ** 2.4 of eight weights."""
    load = loader("BF16", LANES)
    low, high = f32(-(2 ** (num_bits - 1))), f32(2 ** (num_bits - 1) - 1)

    @inline
    def powers_of(weights: Any, first: int, scale: Any, reciprocal: Any, powers: Any) -> Any:
        values, magic = load(weights, first), splat(MAGIC)
        quotients = divide(values, splat(scale)) if is_small else multiply(values, splat(reciprocal))
        clamped = smaller_lanes(larger_lanes(shortened(quotients), splat(low)), splat(high))
        codes = subtract(add(clamped, magic), magic)
        restored = shortened(multiply(codes, splat(scale)))
        return looked_up(powers, shortened(subtract(restored, values)))

    return powers_of


@functools.cache
def measurer(num_bits: int, is_small: bool) -> Callable[[Any, int, int, Any, Any], Any]:
    """A function (weights, start, size, scale, powers) → error, rounded to BF16, as F32."""
    powers_of = power_of(num_bits, is_small)

    @inline
    def error(weights: Any, start: int, size: int, scale: Any, powers: Any) -> Any:
        reciprocal = f32(f32(1) / scale)
        sum0 = sum1 = sum2 = sum3 = splat(f32(0))
        whole = start + size // 64 * 64
        for first in range(start, whole, 64):
            sum0 = add(sum0, sixteen(weights, first, scale, reciprocal, powers))
            sum1 = add(sum1, sixteen(weights, first + 16, scale, reciprocal, powers))
            sum2 = add(sum2, sixteen(weights, first + 32, scale, reciprocal, powers))
            sum3 = add(sum3, sixteen(weights, first + 48, scale, reciprocal, powers))
        for first in range(whole, start + size, 16):
            sum0 = add(sum0, sixteen(weights, first, scale, reciprocal, powers))
        total = sum_in_order(add(add(add(sum0, sum1), sum2), sum3))
        return bf16_to_f32(f32_to_bf16(total))

    @inline
    def sixteen(weights: Any, first: int, scale: Any, reciprocal: Any, powers: Any) -> Any:
        left = powers_of(weights, first, scale, reciprocal, powers)
        return add(left, powers_of(weights, first + LANES, scale, reciprocal, powers))

    return error


@functools.cache
def searcher(num_bits: int) -> Callable[[Any, int, int, Any, Any, int, Any], Any]:
    """A function (weights, start, size, top, ratios, steps, powers) → scale as bits, bits of steps that improved."""
    scale_of, usual, small = scaler(BF16, num_bits), measurer(num_bits, False), measurer(num_bits, True)

    @inline
    def search(weights: Any, start: int, size: int, top: Any, ratios: Any, steps: int, powers: Any) -> Any:
        best, found, seen = LARGEST, scale_of(f32_to_bf16(top)), u32(0)
        for step in range(steps):
            tried = scale_of(f32_to_bf16(f32(top * ratios[step])))
            scale = bf16_to_f32(tried)
            if scale < SMALL:
                error = small(weights, start, size, scale, powers)
            else:
                error = usual(weights, start, size, scale, powers)
            better = error < best
            best, found = select(better, error, best), select(better, tried, found)
            seen = u32(seen | u32(u32(better) << u32(step)))
        return found, seen

    return search


def quantize(num_bits: int, block: int, alone: int) -> Source:
    """Fills packed and scales from `steps` ratios; -1, or the position of the first NaN or infinite weight.

    Bit i of `improved` is set where ratio i gave some group its least error so far.
    """
    extremes_of, search, first_broken = extremes("BF16"), searcher(num_bits), locator(BF16)
    pack = group_packer(BF16, num_bits, block)

    def kernel(
        weights: Any,
        packed: Any,
        scales: Any,
        groups: int,
        group_size: int,
        ratios: Any,
        steps: int,
        powers: Any,
        improved: Any,
    ) -> int:
        size = block if alone else group_size
        seen = u32(0)
        for group in range(groups):
            start = group * size
            high, low = extremes_of(weights, start, size)
            top = larger(high, low)
            if top >= INFINITY:
                return first_broken(weights, start)
            found, better = search(weights, start, size, bits_to_f32(top), ratios, steps, powers)
            seen = u32(seen | better)
            scales[group] = found
            pack(weights, packed, start, size, bf16_to_f32(found))
        improved[0] = seen
        return -1

    bits, words, floats = (types.CPointer(kind) for kind in (types.uint16, types.uint32, types.float32))
    return Source(kernel, types.int64(bits, words, bits, types.int64, types.int64, floats, types.int64, floats, words))
