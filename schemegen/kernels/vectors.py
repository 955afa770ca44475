"""Vectors of F32 in kernels: arithmetic whose order is written down, where a compiler might not find it in scalar code.

A vector has as many lanes as a block has weights; LLVM cuts it into the registers that the CPU has. Nothing is fused or
reordered. Importing this module imports numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

_I32, _F32 = ir.IntType(32), ir.FloatType()


class Lanes(types.Type):  # type: ignore[misc]
    """The numba type of `count` F32 or, with `is_int`, 32-bit integers side by side."""

    def __init__(self, count: int, is_int: bool = False) -> None:
        self.count, self.is_int = count, is_int
        super().__init__(name=f"{'i32' if is_int else 'f32'}x{count}")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(_I32 if lanes.is_int else _F32, lanes.count))


def _binary(emit: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic
    def operation(typing: Any, a: Any, b: Any) -> Any:
        return a(a, a), lambda context, builder, signature, arguments: emit(builder, *arguments)

    return operation


def compared(kind: str, relation: str) -> Callable[[Any, Any, Any], Any]:
    """Code for the one of two, lane by lane, that stands in a relation to the other; the second where it does not."""

    def emit(builder: Any, a: Any, b: Any) -> Any:
        return builder.select(getattr(builder, kind)(relation, a, b), a, b)

    return emit


add = _binary(lambda builder, a, b: builder.fadd(a, b))
subtract = _binary(lambda builder, a, b: builder.fsub(a, b))
multiply = _binary(lambda builder, a, b: builder.fmul(a, b))
divide = _binary(lambda builder, a, b: builder.fdiv(a, b))
larger_lanes = _binary(compared("fcmp_ordered", ">"))
smaller_lanes = _binary(compared("fcmp_ordered", "<"))
largest_signed = _binary(compared("icmp_signed", ">"))
largest_unsigned = _binary(compared("icmp_unsigned", ">"))


@functools.cache
def splatter(count: int) -> Any:
    """A function that gives `count` lanes of one F32."""

    @intrinsic
    def splat(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return spread(builder, arguments[0], count)

        return Lanes(count)(types.float32), generate

    return splat


def taken(builder: Any, a: Any, b: Any, lanes: Iterable[int]) -> Any:
    """Code for these lanes of two vectors side by side."""
    places = [*lanes]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(places)), places))


def spread(builder: Any, value: Any, count: int) -> Any:
    """Code for `count` lanes of one F32."""
    empty = ir.Constant(ir.VectorType(_F32, count), ir.Undefined)
    return taken(builder, builder.insert_element(empty, value, ir.Constant(_I32, 0)), empty, [0] * count)


@functools.cache
def constant(values: tuple[float, ...]) -> Any:
    """A function that gives lanes of these values."""

    @intrinsic
    def lanes(typing: Any) -> Any:
        vector = ir.Constant(ir.VectorType(_F32, len(values)), [ir.Constant(_F32, value) for value in values])
        return Lanes(len(values))(), lambda context, builder, signature, arguments: vector

    return lanes


@functools.cache
def loader(dtype: str, count: int) -> Any:
    """A function (pointer, index) → `count` weights of raw bits as F32."""
    bits = 32 if dtype == "F32" else 16

    @intrinsic
    def load(typing: Any, pointer: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = builder.gep(arguments[0], [arguments[1]])
            vector = ir.VectorType(ir.IntType(bits), count)
            raw = builder.load(builder.bitcast(first, vector.as_pointer()), align=bits // 8)
            return _WIDENED[dtype](builder, raw, count)

        return Lanes(count)(pointer, types.int64), generate

    return load


def _ints(value: int, count: int) -> Any:
    return ir.Constant(ir.VectorType(_I32, count), [value] * count)


def _as_floats(builder: Any, raw: Any, count: int) -> Any:
    return builder.bitcast(raw, ir.VectorType(_F32, count))


def _from_bf16(builder: Any, raw: Any, count: int) -> Any:
    wide = builder.zext(raw, ir.VectorType(_I32, count))
    return _as_floats(builder, builder.shl(wide, _ints(16, count)), count)


def _from_f16(builder: Any, raw: Any, count: int) -> Any:
    """As `bits.f16_to_f32`; what is infinite or no number becomes 2**16 or more."""
    wide = builder.zext(raw, ir.VectorType(_I32, count))
    magnitude = builder.and_(wide, _ints(0x7FFF, count))
    sign = builder.shl(builder.and_(wide, _ints(0x8000, count)), _ints(16, count))
    normal = builder.add(builder.shl(magnitude, _ints(13, count)), _ints(112 << 23, count))
    step = ir.Constant(ir.VectorType(_F32, count), [2.0**-24] * count)
    tiny = builder.fmul(builder.sitofp(magnitude, step.type), step)
    is_tiny = builder.icmp_unsigned("<", magnitude, _ints(0x400, count))
    bits = builder.select(is_tiny, builder.bitcast(tiny, normal.type), normal)
    return _as_floats(builder, builder.or_(bits, sign), count)


_WIDENED = {"BF16": _from_bf16, "F16": _from_f16, "F32": _as_floats}


@intrinsic
def raw_bits(typing: Any, value: Any) -> Any:
    """The lanes' bits as 32-bit integers."""
    lanes = Lanes(value.count, is_int=True)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(lanes))

    return lanes(value), generate


@intrinsic
def shortened(typing: Any, value: Any) -> Any:
    """Lanes rounded to BF16, half to even; none of them NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count = value.count
        raw = builder.bitcast(arguments[0], ir.VectorType(_I32, count))
        odd = builder.and_(builder.lshr(raw, _ints(16, count)), _ints(1, count))
        carried = builder.add(builder.add(raw, _ints(0x7FFF, count)), odd)
        return _as_floats(builder, builder.and_(carried, _ints(0xFFFF0000, count)), count)

    return value(value), generate


@intrinsic
def looked_up(typing: Any, table: Any, value: Any) -> Any:
    """An F32 a lane from a table [2**15], by the magnitude of a lane that holds a BF16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count = value.count
        raw = builder.bitcast(arguments[1], ir.VectorType(_I32, count))
        places = builder.and_(builder.lshr(raw, _ints(16, count)), _ints(0x7FFF, count))
        found = ir.Constant(ir.VectorType(_F32, count), ir.Undefined)
        for lane in range(count):
            place = builder.zext(builder.extract_element(places, ir.Constant(_I32, lane)), ir.IntType(64))
            item = builder.load(builder.gep(arguments[0], [place]))
            found = builder.insert_element(found, item, ir.Constant(_I32, lane))
        return found

    return value(table, value), generate
