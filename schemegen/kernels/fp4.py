"""FP4 E2M1 in small groups, in compressed-tensors' arithmetic, fused: `fp4_scaling` says how a group is scaled.

A code is a magnitude's index among 0, 0.5, 1, 1.5, 2, 3, 4, 6, plus 8 for what is below zero; a quotient between two
goes to the nearer one, to the even index where both are as near. Eight codes fill a 32-bit word, lowest bits first.

What a builder returns takes pointers to weights [groups * size], words and scales [groups], the number of groups, and
the global scale, which MXFP4 has no use for. Importing this module imports numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types
from numpy import float32 as f32
from numpy import uint8 as u8
from numpy import uint32 as u32

from schemegen.kernels.bits import (
    FLOATS,
    bf16_to_f32,
    bits_to_f32,
    f32_to_bf16,
    f32_to_bits,
    inline,
    locator,
    select,
)
from schemegen.kernels.compiler import Source
from schemegen.kernels.fp4_numbers import SIZES
from schemegen.kernels.fp4_scaling import scaling
from schemegen.kernels.int_symmetric import measurer, smaller

# Codes in a word, and groups whose scales and divisors are made together, in vector registers.
COUNT = 8
TILE = 16

_MAGNITUDE, _INFINITY = u32(0x7FFFFFFF), u32(0x7F800000)
# A sum with 1.5 * 2**22 is rounded to halves, half to even, and holds their number in its low bits.
_HALVES, _HALVES_BITS = f32(1.5 * 2**22), u32(0x4AC00000)
# Below half of what a code's one bit of mantissa leaves out, and the bits of 1.0 less its index, 2.
_BELOW_HALF, _ORIGIN = u32(0x1FFFFF), u32((0x3F800000 >> 22) - 2)


@functools.cache
def coder(kind: str, dtype: str) -> Callable[[Any, Any], Any]:
    """A function (weight, divisor) → code."""
    rule = scaling(kind, dtype)
    widen, divided, nothing = FLOATS[dtype].widen, rule.divided, f32(-rule.least)

    @inline
    def code(weight: Any, divisor: Any) -> Any:
        quotient = divided(widen(weight), divisor)
        magnitude = smaller(bits_to_f32(u32(f32_to_bits(quotient) & _MAGNITUDE)), f32(6))
        raw = f32_to_bits(magnitude)
        rounded = u32(u32(raw + _BELOW_HALF) + u32(u32(raw >> u32(22)) & u32(1)))
        halves = u32(f32_to_bits(f32(magnitude + _HALVES)) - _HALVES_BITS)
        index = select(magnitude < f32(1), halves, u32(u32(rounded >> u32(22)) - _ORIGIN))
        return u32(index | select(quotient < nothing, u32(8), u32(0)))

    return code


@functools.cache
def packer(kind: str, dtype: str) -> Callable[[Any, int, Any], Any]:
    """A function (weights, position, divisor) → the word of the weights from that position on."""
    code = coder(kind, dtype)

    @inline
    def word(weights: Any, start: int, divisor: Any) -> Any:
        # Zero, which the compiler does not know: it would leave out the first code's shift, and codes that are not
        # treated alike do not go into vector registers.
        first, packed = u32(start >> 62), u32(0)
        for i in range(COUNT):
            packed = u32(packed | u32(code(weights[start + i], divisor) << u32(first + u32(4 * i))))
        return packed

    return word


@inline
def value_of_code(code: Any) -> Any:
    """The value of a code of 4 bits."""
    index = u32(code & u32(7))
    small = select(index == u32(0), u32(0), u32(0x3F000000))
    magnitude = select(index < u32(2), small, u32(u32(index + _ORIGIN) << u32(22)))
    return bits_to_f32(u32(magnitude | u32(u32(code & u32(8)) << u32(28))))


def signature(dtype: str) -> Any:
    """The numba signature that every kernel here has."""
    weight = types.CPointer(from_dtype(np.dtype(FLOATS[dtype].uint)))
    return types.int64(weight, types.CPointer(types.uint32), types.CPointer(types.uint8), types.int64, types.float32)


def quantize(kind: str, dtype: str) -> Source:
    """Fills packed and scales; -1, or the position of the first NaN or infinite weight."""
    floats, rule = FLOATS[dtype], scaling(kind, dtype)
    size, scale_of, divisor_of, infinity = rule.size, rule.scale_of, rule.divisor_of, floats.infinity
    absmax, first_broken, words = measurer(floats, size), locator(floats), size // COUNT
    encode, to_scales, to_divisors = encoder(kind, dtype), *tiled(kind, dtype)

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, global_scale: Any) -> int:
        tiled_groups = groups // TILE * TILE
        for tile in range(0, tiled_groups, TILE):
            # The tile's last words, in which no code is written before that of the group whose divisor stands there.
            spare = (tile + TILE) * words - TILE
            for group in range(TILE):
                top = absmax(weights, (tile + group) * size, size)
                if top >= infinity:
                    return first_broken(weights, (tile + group) * size)
                packed[spare + group] = u32(top)
            to_scales(packed, spare, global_scale)
            for group in range(TILE):
                scales[tile + group] = u8(packed[spare + group])
            to_divisors(packed, spare, global_scale)
            for group in range(TILE):
                encode(weights, packed, tile + group, bits_to_f32(packed[spare + group]))
        for group in range(tiled_groups, groups):
            top = absmax(weights, group * size, size)
            if top >= infinity:
                return first_broken(weights, group * size)
            scales[group] = scale_of(top, global_scale)
            encode(weights, packed, group, divisor_of(scales[group], global_scale))
        return -1

    return Source(kernel, signature(dtype))


def encoder(kind: str, dtype: str) -> Callable[[Any, Any, int, Any], None]:
    """A function (weights, packed, group, divisor) that fills the group's words."""
    word, size = packer(kind, dtype), SIZES[kind]
    words = size // COUNT

    @inline
    def encode(weights: Any, packed: Any, group: int, divisor: Any) -> None:
        for i in range(words):
            packed[group * words + i] = word(weights, group * size + i * COUNT, divisor)

    return encode


def tiled(kind: str, dtype: str) -> tuple[Callable[[Any, int, Any], Any], Callable[[Any, int, Any], Any]]:
    """Functions (words, position, global scale) over a tile's words in place: absmax to scale, and scale to divisor."""
    rule, uint = scaling(kind, dtype), FLOATS[dtype].uint
    scale_of, divisor_of = rule.scale_of, rule.divisor_of

    @inline
    def to_scale(words: Any, i: int, global_scale: Any) -> None:
        words[i] = u32(scale_of(uint(words[i]), global_scale))

    @inline
    def to_divisor(words: Any, i: int, global_scale: Any) -> None:
        words[i] = f32_to_bits(divisor_of(u8(words[i]), global_scale))

    return repeated(to_scale, TILE), repeated(to_divisor, TILE)


def repeated(step: Callable[[Any, int, Any], Any], count: int) -> Callable[[Any, int, Any], Any]:
    """`step` at `count` places from one on, a power of two, written out: LLVM makes vectors of straight-line code."""
    if count == 1:
        return step
    half, size = repeated(step, count // 2), count // 2

    @inline
    def both(words: Any, start: int, global_scale: Any) -> None:
        half(words, start, global_scale)
        half(words, start + size, global_scale)

    return both


def recode(kind: str, dtype: str) -> Source:
    """Codes against the stored scales; -1, or the position of the first weight whose stored code is another.

    A weight that is not finite has no code, nor has one under a scale that divides to nothing, or by nothing.
    """
    floats, rule = FLOATS[dtype], scaling(kind, dtype)
    size, divisor_of, unusable = rule.size, rule.divisor_of, rule.unusable
    absmax, code, word, words = measurer(floats, size), coder(kind, dtype), packer(kind, dtype), size // COUNT
    infinity, magnitude = floats.infinity, floats.magnitude

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, global_scale: Any) -> int:
        for group in range(groups):
            start = group * size
            divisor = divisor_of(scales[group], global_scale)
            divisor_size = u32(f32_to_bits(divisor) & _MAGNITUDE)
            if unusable(scales[group]) or divisor_size == u32(0) or divisor_size >= _INFINITY:
                return start
            different = u32(absmax(weights, start, size) >= infinity)
            for i in range(words):
                right = word(weights, start + i * COUNT, divisor)
                different = u32(different | u32(packed[group * words + i] ^ right))
            if different == u32(0):
                continue
            for i in range(start, start + size):
                stored = u32(u32(packed[i // COUNT] >> u32(i % COUNT * 4)) & u32(15))
                if (weights[i] & magnitude) >= infinity or stored != code(weights[i], divisor):
                    return i
        return -1

    return Source(kernel, signature(dtype))


def decode(kind: str, dtype: str) -> Source:
    """Fills weights with value times scale, rounded to BF16, as compressed-tensors does, then to the dtype; -1."""
    rule, narrow = scaling(kind, dtype), FLOATS[dtype].narrow
    size, value_of = rule.size, rule.value_of

    def kernel(weights: Any, packed: Any, scales: Any, groups: int, global_scale: Any) -> int:
        for group in range(groups):
            scale = value_of(scales[group], global_scale)
            for first in range(group * size, (group + 1) * size, COUNT):
                word = packed[first // COUNT]
                for i in range(COUNT):
                    value = f32(value_of_code(u32(word >> u32(4 * i))) * scale)
                    weights[first + i] = narrow(bf16_to_f32(f32_to_bf16(value)))
        return -1

    return Source(kernel, signature(dtype))
