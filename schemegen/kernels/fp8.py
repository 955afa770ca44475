"""FP8 E4M3 codes under scales of the weights' dtype, or under E8M0 (MX), in compressed-tensors' arithmetic.

scale = absmax / 448, rounded to the weights' dtype, and the dtype's epsilon where that gives zero, or the MX rule of
`small_floats`; code = weight / scale, rounded to the weights' dtype, clamped to -448..448, then to E4M3 half to even.

A matrix is cut into blocks of height x width weights with one scale each, smaller at the right and lower edges. A row
is a block of 1 x cols, an MX group one of 1 x 32. What a builder returns takes pointers to weights, codes [matrices,
rows, cols] and scales [matrices, ceil(rows / height), ceil(cols / width)], then these five numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import from_dtype, types
from numpy import float32 as f32
from numpy import uint8 as u8

from schemegen.kernels.bits import FLOATS, FloatFormat, bf16_to_f32, f32_to_bf16, inline, select
from schemegen.kernels.compiler import Source
from schemegen.kernels.int_symmetric import larger, measurer, smaller
from schemegen.kernels.mx import E4M3_OFFSET
from schemegen.kernels.small_floats import (
    e4m3_to_f32,
    e8m0_reciprocal,
    e8m0_to_f32,
    f32_to_e4m3,
    mx_exponent,
)
from schemegen.kernels.straight import comparer, filler

#: What is worked through as straight-line code; an MX group.
RUN = 32
_LARGEST = f32(448)

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a kind of scales works: its numba type, absmax bits → scale, scale → what `code` and `weight` take.

    `code` is (weight, divisor) → E4M3, `weight` is (E4M3, scale's value) → bits of the weights' dtype.
    """

    stored: type[np.unsignedinteger[Any]]
    scale_of: Function
    divisor: Function
    code: Function
    value: Function
    weight: Function


def _own_scales(floats: FloatFormat) -> Scaling:
    """Scales of the weights' dtype."""
    uint, epsilon, widen, narrow, shorten = floats.uint, floats.epsilon, floats.widen, floats.narrow, floats.shorten

    @inline
    def scale_of(top: Any) -> Any:
        scale = narrow(f32(widen(top) / _LARGEST))
        return select(scale == uint(0), epsilon, scale)

    @inline
    def code(weight: Any, scale: Any) -> Any:
        return f32_to_e4m3(_clamped(shorten(f32(widen(weight) / scale))))

    @inline
    def restored(code: Any, scale: Any) -> Any:
        return narrow(f32(e4m3_to_f32(code) * scale))

    return Scaling(uint, scale_of, widen, code, widen, restored)


def _mx_scales(dtype: str, floats: FloatFormat) -> Scaling:
    """E8M0. Quotients need no rounding: they are exact, or so small that their code is zero."""
    widen, narrow = floats.widen, floats.narrow

    @inline
    def code(weight: Any, reciprocal: Any) -> Any:
        return f32_to_e4m3(_clamped(f32(widen(weight) * reciprocal)))

    @inline
    def restored(code: Any, scale: Any) -> Any:
        # compressed-tensors restores to BF16, whatever the weights were.
        return narrow(bf16_to_f32(f32_to_bf16(f32(e4m3_to_f32(code) * scale))))

    return Scaling(u8, mx_exponent(dtype, E4M3_OFFSET), e8m0_reciprocal, code, e8m0_to_f32, restored)


@inline
def _clamped(value: Any) -> Any:
    return smaller(larger(value, f32(-_LARGEST)), _LARGEST)


def _scaling(dtype: str, is_mx: int) -> Scaling:
    return _mx_scales(dtype, FLOATS[dtype]) if is_mx else _own_scales(FLOATS[dtype])


def _magnitude_of_run(floats: FloatFormat) -> Function:
    """A function (weights, start, stop) → the largest magnitude, as bits."""
    absmax, uint, magnitude = measurer(floats, RUN), floats.uint, floats.magnitude

    @inline
    def of_run(weights: Any, start: int, stop: int) -> Any:
        whole = (stop - start) // RUN * RUN
        top = absmax(weights, start, whole)
        for i in range(start + whole, stop):
            top = larger(top, uint(weights[i] & magnitude))
        return top

    return of_run


def _difference(floats: FloatFormat, scaling: Scaling) -> Function:
    """A function (weight, stored code, divisor) → 0 where the code is the weight's, which is finite."""
    code, infinity, magnitude = scaling.code, floats.infinity, floats.magnitude

    @inline
    def difference(weight: Any, stored: Any, divisor: Any) -> Any:
        return u8(u8(stored ^ code(weight, divisor)) | u8((weight & magnitude) >= infinity))

    return difference


def _signature(floats: FloatFormat, scaling: Scaling) -> Any:
    weight, scale = (types.CPointer(from_dtype(np.dtype(uint))) for uint in (floats.uint, scaling.stored))
    return types.int64(weight, types.CPointer(types.uint8), scale, *[types.int64] * 5)


def quantize(dtype: str, is_mx: int) -> Source:
    """Fills codes and scales; -1, or a number from 0 on where a weight is NaN or infinite."""
    floats, scaling = FLOATS[dtype], _scaling(dtype, is_mx)
    absmax, encode = _magnitude_of_run(floats), filler(scaling.code, RUN)
    scale_of, divisor, infinity, uint = scaling.scale_of, scaling.divisor, floats.infinity, floats.uint

    def kernel(
        weights: Any, codes: Any, scales: Any, matrices: int, rows: int, cols: int, height: int, width: int
    ) -> int:
        down, across = (rows + height - 1) // height, (cols + width - 1) // width
        for block in range(matrices * down * across):
            band, left = block // across, block % across * width
            right = left + RUN if is_mx else min(left + width, cols)
            first = band // down * rows + band % down * height
            last = first + 1 if is_mx else min(first + height, (band // down + 1) * rows)
            top = uint(0)
            for row in range(first, last):
                top = larger(top, absmax(weights, row * cols + left, row * cols + right))
            if top >= infinity:
                return block
            scale = scale_of(top)
            scales[block] = scale
            for row in range(first, last):
                encode(weights, codes, row * cols + left, row * cols + right, divisor(scale))
        return -1

    return Source(kernel, _signature(floats, scaling))


def quantize_under(dtype: str) -> Source:
    """Fills codes under scales that are given, one a matrix; -1, or a row of a NaN or infinite weight."""
    floats, scaling = FLOATS[dtype], _scaling(dtype, 0)
    absmax, encode = _magnitude_of_run(floats), filler(scaling.code, RUN)
    divisor, infinity = scaling.divisor, floats.infinity

    def kernel(
        weights: Any, codes: Any, scales: Any, matrices: int, rows: int, cols: int, height: int, width: int
    ) -> int:
        for row in range(matrices * rows):
            if absmax(weights, row * cols, (row + 1) * cols) >= infinity:
                return row
            encode(weights, codes, row * cols, (row + 1) * cols, divisor(scales[row // rows]))
        return -1

    return Source(kernel, _signature(floats, scaling))


def recode(dtype: str, is_mx: int) -> Source:
    """Codes against the stored scales; -1, or the position of the first weight whose stored code is another.

    A weight that is not finite has no code.
    """
    floats, scaling = FLOATS[dtype], _scaling(dtype, is_mx)
    compare, divisor = comparer(_difference(floats, scaling), RUN), scaling.divisor

    def kernel(
        weights: Any, codes: Any, scales: Any, matrices: int, rows: int, cols: int, height: int, width: int
    ) -> int:
        down, across = (rows + height - 1) // height, (cols + width - 1) // width
        for row in range(matrices * rows):
            first = (row // rows * down + row % rows // height) * across
            for block in range(across):
                start, stop = row * cols + block * width, row * cols + min((block + 1) * width, cols)
                where: int = compare(weights, codes, start, stop, divisor(scales[first + block]))
                if where >= 0:
                    return where
        return -1

    return Source(kernel, _signature(floats, scaling))


def decode(dtype: str, is_mx: int) -> Source:
    """Fills weights with code * scale, rounded to the dtype; -1."""
    floats, scaling = FLOATS[dtype], _scaling(dtype, is_mx)
    restore, value = filler(scaling.weight, RUN), scaling.value

    def kernel(
        weights: Any, codes: Any, scales: Any, matrices: int, rows: int, cols: int, height: int, width: int
    ) -> int:
        down, across = (rows + height - 1) // height, (cols + width - 1) // width
        for row in range(matrices * rows):
            first = (row // rows * down + row % rows // height) * across
            for block in range(across):
                scale = value(scales[first + block])
                restore(codes, weights, row * cols + block * width, row * cols + min((block + 1) * width, cols), scale)
        return -1

    return Source(kernel, _signature(floats, scaling))
