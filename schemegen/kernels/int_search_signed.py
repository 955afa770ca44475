"""Symmetric integers whose scale may be negative: observer `signed_mse`, fused, for the pack-quantized layout.

`signed_grid` says what is computed. A builder takes what those of `int_symmetric` take; its kernel has their signature.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy import float32 as f32
from numpy import uint32 as u32

from schemegen.kernels.bits import FLOATS, MAGIC, bits_to_f32, inline, locator, select
from schemegen.kernels.compiler import Source
from schemegen.kernels.int_symmetric import group_packer, larger, scaler, signature
from schemegen.kernels.signed_grid import LANES, OTHERS, least_top, places_of
from schemegen.kernels.vector_sums import lane_at, lane_of, signed_top, sums_of, top_of, unsigned_top
from schemegen.kernels.vectors import (
    add,
    constant,
    divide,
    larger_lanes,
    largest_signed,
    largest_unsigned,
    loader,
    multiply,
    raw_bits,
    smaller_lanes,
    splatter,
    subtract,
)

SIGN = u32(1 << 31)
#: Bits of infinity as `loader` widens it.
INFINITY = {"BF16": u32(0x7F800000), "F16": u32(0x47800000), "F32": u32(0x7F800000)}

splat = splatter(LANES)


@functools.cache
def extremes(dtype: str) -> Callable[[Any, int, int], Any]:
    """A function (weights, start, size) → largest and lowest weight, as bits of their F32 magnitude; 0 beyond zero."""
    load = loader(dtype, LANES)

    @inline
    def measure(weights: Any, start: int, size: int) -> Any:
        high = low = raw_bits(load(weights, start))
        for first in range(start + LANES, start + size, LANES):
            bits = raw_bits(load(weights, first))
            high, low = largest_signed(high, bits), largest_unsigned(low, bits)
        top, bottom = u32(signed_top(high)), u32(unsigned_top(low))
        return select(top < SIGN, top, u32(0)), select(bottom >= SIGN, u32(bottom ^ SIGN), u32(0))

    return measure


@inline
def codes_of(scaled: Any, lowest: Any, highest: Any) -> Any:
    """Lanes rounded to integers, half to even, and clamped."""
    magic = splat(MAGIC)
    return smaller_lanes(larger_lanes(subtract(add(scaled, magic), magic), splat(lowest)), splat(highest))


@functools.cache
def one_signed(dtype: str, num_bits: int) -> Callable[[Any, int, int, Any, Any], Any]:
    """A function (weights, start, size, factors) → for each, lanes of sum(u q) and sum(q q); u = weight * factor."""
    load, low, high = loader(dtype, LANES), f32(-(2 ** (num_bits - 1))), f32(2 ** (num_bits - 1) - 1)

    @inline
    def sums(weights: Any, start: int, size: int, factor: Any, factor2: Any) -> Any:
        product = square = product2 = square2 = splat(f32(0))
        for first in range(start, start + size, LANES):
            values = load(weights, first)
            scaled, scaled2 = multiply(values, splat(factor)), multiply(values, splat(factor2))
            codes, codes2 = codes_of(scaled, low, high), codes_of(scaled2, low, high)
            product, square = add(product, multiply(scaled, codes)), add(square, multiply(codes, codes))
            product2, square2 = add(product2, multiply(scaled2, codes2)), add(square2, multiply(codes2, codes2))
        return product, square, product2, square2

    return sums


@functools.cache
def two_signed(dtype: str, num_bits: int) -> Callable[[Any, int, int, Any], Any]:
    """A function (weights, start, size, factor) → the same with this factor, and with its negative."""
    load, low, high = loader(dtype, LANES), f32(-(2 ** (num_bits - 1))), f32(2 ** (num_bits - 1) - 1)

    @inline
    def sums(weights: Any, start: int, size: int, factor: Any) -> Any:
        product = square = product2 = square2 = splat(f32(0))
        for first in range(start, start + size, LANES):
            scaled = multiply(load(weights, first), splat(factor))
            # The negative of both codes and u: their product is the same.
            codes, codes2 = codes_of(scaled, low, high), codes_of(scaled, f32(-high), f32(-low))
            product, square = add(product, multiply(scaled, codes)), add(square, multiply(codes, codes))
            product2, square2 = add(product2, multiply(scaled, codes2)), add(square2, multiply(codes2, codes2))
        return product, square, product2, square2

    return sums


@functools.cache
def searcher(dtype: str, num_bits: int) -> Callable[[Any, int, int, Any, Any], Any]:
    """A function (weights, start, size, top, sign) → scale, before it is rounded; the sign makes it negative or not."""
    one, two = one_signed(dtype, num_bits), two_signed(dtype, num_bits)
    places = places_of(num_bits)
    d0, d1, d2, d3, d4, d5, d6, d7 = map(f32, places)
    parts = constant(tuple(1 / place for place in places))
    # Two lanes are left over: they repeat others.
    parts2 = constant(tuple(1 / places[other] for other in (*OTHERS, *OTHERS[:2])))

    @inline
    def search(weights: Any, start: int, size: int, top: Any, sign: Any) -> Any:
        unit = f32(sign / top)
        p0, s0, v0, t0 = two(weights, start, size, f32(unit * d0))
        p1, s1, p2, s2 = one(weights, start, size, f32(unit * d1), f32(unit * d2))
        p3, s3, v3, t3 = two(weights, start, size, f32(unit * d3))
        p4, s4, v4, t4 = two(weights, start, size, f32(unit * d4))
        p5, s5, v5, t5 = two(weights, start, size, f32(unit * d5))
        p6, s6, v6, t6 = two(weights, start, size, f32(unit * d6))
        p7, s7, v7, t7 = two(weights, start, size, f32(unit * d7))
        products = multiply(sums_of((p0, p1, p2, p3, p4, p5, p6, p7)), parts())
        products2 = multiply(sums_of((v0, v3, v4, v5, v6, v7, v0, v3)), parts2())
        scales = divide(products, sums_of((s0, s1, s2, s3, s4, s5, s6, s7)))
        scales2 = divide(products2, sums_of((t0, t3, t4, t5, t6, t7, t0, t3)))
        gains, gains2 = multiply(products, scales), multiply(products2, scales2)
        gain, gain2 = f32(top_of(gains)), f32(top_of(gains2))
        found, found2 = lane_at(scales, lane_of(gains, gain)), lane_at(scales2, lane_of(gains2, gain2))
        return f32(f32(sign * top) * select(gain2 > gain, f32(-found2), found))

    return search


@functools.cache
def signed_scaler(dtype: str, num_bits: int) -> Callable[[Any, int, int, Any, Any], Any]:
    """A function (weights, start, size, largest and lowest as bits) → scale as bits."""
    floats, least = FLOATS[dtype], f32(least_top(dtype, num_bits))
    narrow, search, scale_of = floats.narrow, searcher(dtype, num_bits), scaler(floats, num_bits)

    @inline
    def scale(weights: Any, start: int, size: int, high: Any, low: Any) -> Any:
        top = bits_to_f32(larger(high, low))
        if top < least:
            return scale_of(narrow(top))
        return narrow(search(weights, start, size, top, select(high > low, f32(-1), f32(1))))

    return scale


def quantize(dtype: str, num_bits: int, block: int, alone: int) -> Source:
    """Fills packed and scales; -1, or the position of the first NaN or infinite weight."""
    floats, limit = FLOATS[dtype], INFINITY[dtype]
    measure, scale_of, pack = extremes(dtype), signed_scaler(dtype, num_bits), group_packer(floats, num_bits, block)
    first_broken, widen = locator(floats), floats.widen

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, group_size: int) -> int:
        size = block if alone else group_size
        for group in range(groups):
            start = group * size
            high, low = measure(weights, start, size)
            if larger(high, low) >= limit:
                return first_broken(weights, start)
            scales[group] = scale_of(weights, start, size, high, low)
            pack(weights, packed, start, size, widen(scales[group]))
        return -1

    return Source(kernel, signature(floats))
