"""Vectors of F32 in kernels, down to one number: sums in a written order, extremes, lanes. Imports numba."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schemegen.kernels.vectors import compared, spread, taken

_I32 = ir.IntType(32)


def _folder(emit: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic
    def fold(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector, count = arguments[0], value.count
            while count > 1:
                count //= 2
                low, high = (taken(builder, vector, vector, range(at, at + count)) for at in (0, count))
                vector = emit(builder, low, high)
            return builder.extract_element(vector, ir.Constant(_I32, 0))

        return (types.uint32 if value.is_int else types.float32)(value), generate

    return fold


top_of = _folder(compared("fcmp_ordered", ">"))
signed_top = _folder(compared("icmp_signed", ">"))
unsigned_top = _folder(compared("icmp_unsigned", ">"))

_HALVES = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
_QUARTERS = ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
_EIGHTHS = ((0, 2, 8, 10, 4, 6, 12, 14), (1, 3, 9, 11, 5, 7, 13, 15))


@intrinsic
def sums_of(typing: Any, vectors: Any) -> Any:
    """The sums of eight vectors of eight lanes, one a lane: each (0 + 4) + (2 + 6) and (1 + 5) + (3 + 7), added."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left = cgutils.unpack_tuple(builder, arguments[0])
        left = [left[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)]
        for low, high in (_HALVES, _QUARTERS, _EIGHTHS):
            pairs = zip(left[::2], left[1::2], strict=True)
            left = [builder.fadd(taken(builder, a, b, low), taken(builder, a, b, high)) for a, b in pairs]
        return left[0]

    return vectors.dtype(vectors), generate


@intrinsic
def lane_of(typing: Any, value: Any, wanted: Any) -> Any:
    """The first lane that holds a value, which one does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, one = arguments
        count = value.count
        is_there = builder.fcmp_ordered("==", vector, spread(builder, one, count))
        mask = builder.bitcast(is_there, ir.IntType(count))
        return builder.zext(builder.cttz(mask, ir.Constant(ir.IntType(1), 1)), ir.IntType(64))

    return types.int64(value, types.float32), generate


@intrinsic
def lane_at(typing: Any, value: Any, lane: Any) -> Any:
    """One lane's F32."""
    return types.float32(value, types.int64), lambda context, builder, signature, arguments: builder.extract_element(
        *arguments
    )


@intrinsic
def sum_in_order(typing: Any, value: Any) -> Any:
    """The lanes' sum, one after the other."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = [builder.extract_element(arguments[0], ir.Constant(_I32, lane)) for lane in range(value.count)]
        return functools.reduce(builder.fadd, lanes)

    return types.float32(value), generate
