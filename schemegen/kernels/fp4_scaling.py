"""How groups of FP4 weights are scaled, for fused kernels.

NVFP4, groups of 16: scale = absmax / 6, rounded to the weights' dtype, times the global scale, rounded to E4M3, and
0.125 for zero; weights are divided by scale / global scale, all in F32. MXFP4, groups of 32: scales are powers of two.
Importing this module imports numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy import float32 as f32
from numpy import uint8 as u8

from schemegen.kernels.bits import FLOATS, inline, select
from schemegen.kernels.fp4_numbers import MX_LEAST, MXFP4, NVFP4, SIZES
from schemegen.kernels.int_symmetric import smaller
from schemegen.kernels.mx import E2M1_OFFSET
from schemegen.kernels.small_floats import (
    e4m3_to_f32,
    e8m0_reciprocal,
    e8m0_to_f32,
    f32_to_e4m3,
    mx_exponent,
)

_MAX_E4M3, _EIGHTH, _NAN_E4M3 = f32(448), u8(0x20), u8(0x7F)
_NAN_E8M0 = u8(0xFF)


@dataclass(frozen=True, slots=True)
class Scaling:
    """The scaling of groups of `size` weights; each function takes the global scale last.

    `scale_of` makes stored bits of an absmax, as bits; `divisor_of` makes of stored bits what `divided` divides F32
    weights by, and `value_of` what they stand for; `unusable` tells bits that are no scale. A quotient that is not
    below `-least` has no sign, since it is zero in the dtype that compressed-tensors divides in.
    """

    size: int
    least: float
    scale_of: Callable[[Any, Any], Any]
    divisor_of: Callable[[Any, Any], Any]
    divided: Callable[[Any, Any], Any]
    value_of: Callable[[Any, Any], Any]
    unusable: Callable[[Any], Any]


@functools.cache
def scaling(kind: str, dtype: str) -> Scaling:
    """The scaling of weights of a dtype."""
    return {NVFP4: _nvfp4, MXFP4: _mxfp4}[kind](dtype)


def _nvfp4(dtype: str) -> Scaling:
    widen, narrow = FLOATS[dtype].widen, FLOATS[dtype].narrow

    @inline
    def scale_of(top: Any, global_scale: Any) -> Any:
        local = widen(narrow(f32(widen(top) / f32(6))))
        stored = f32_to_e4m3(smaller(f32(local * global_scale), _MAX_E4M3))
        return select(stored == u8(0), _EIGHTH, stored)

    @inline
    def divisor_of(stored: Any, global_scale: Any) -> Any:
        return f32(e4m3_to_f32(stored) / global_scale)

    @inline
    def divided(value: Any, divisor: Any) -> Any:
        return f32(value / divisor)

    @inline
    def unusable(stored: Any) -> Any:
        magnitude = u8(stored & u8(0x7F))
        return magnitude == u8(0) or magnitude == _NAN_E4M3

    return Scaling(SIZES[NVFP4], 0.0, scale_of, divisor_of, divided, divisor_of, unusable)


def _mxfp4(dtype: str) -> Scaling:
    exponent = mx_exponent(dtype, E2M1_OFFSET)

    @inline
    def scale_of(top: Any, global_scale: Any) -> Any:
        return exponent(top)

    @inline
    def reciprocal_of(stored: Any, global_scale: Any) -> Any:
        return e8m0_reciprocal(stored)

    @inline
    def multiplied(value: Any, reciprocal: Any) -> Any:
        return f32(value * reciprocal)

    @inline
    def value_of(stored: Any, global_scale: Any) -> Any:
        return e8m0_to_f32(stored)

    @inline
    def unusable(stored: Any) -> Any:
        return stored == _NAN_E8M0

    return Scaling(SIZES[MXFP4], MX_LEAST[dtype], scale_of, reciprocal_of, multiplied, value_of, unusable)
