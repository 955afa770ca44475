from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from numba import types

from schemegen.kernels.vector_sums import lane_at, lane_of, sum_in_order, sums_of, top_of
from schemegen.kernels.vectors import loader, looked_up, shortened, splatter, subtract

Array = npt.NDArray[Any]
POINTERS = {"BF16": types.uint16, "F16": types.uint16, "F32": types.float32}


def called(function: Any, pointer: Any, *arrays: Array, count: int) -> None:
    """Compile `function(array, floats out, count)` and call it."""
    signature = types.void(types.CPointer(pointer), types.CPointer(types.float32), types.int64)
    made = numba.cfunc(signature, error_model="numpy")(function)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(made.address)
    call(*(array.ctypes.data for array in arrays), count)


def widened(dtype: str, bits: Array) -> Array:
    """Every item as F32, lane by lane."""
    load = loader(dtype, 8)

    def widen(given: Any, out: Any, count: int) -> None:
        for first in range(0, count, 8):
            values = load(given, first)
            for lane in range(8):
                out[first + lane] = lane_at(values, lane)

    out = np.empty(bits.size, np.float32)
    called(widen, POINTERS[dtype], bits, out, count=bits.size)
    return out


def test_every_16_bit_float_is_widened_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(widened("BF16", bits).view(np.uint32), bits.astype(np.uint32) << 16)
    finite = bits[(bits & 0x7C00) != 0x7C00]
    expected = finite.view(np.float16).astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(widened("F16", finite).view(np.uint32), expected)
    assert (np.abs(widened("F16", bits[(bits & 0x7C00) == 0x7C00])) >= 2.0**16).all()


def test_lanes_are_rounded_to_bf16_half_to_even(nearest_bf16: Any) -> None:
    load, zero = loader("F32", 8), splatter(8)

    def shorten(given: Any, out: Any, count: int) -> None:
        for first in range(0, count, 8):
            values = subtract(shortened(load(given, first)), zero(np.float32(0)))
            for lane in range(8):
                out[first + lane] = lane_at(values, lane)

    raw = np.random.default_rng(0).integers(0, 0x7F7F0000, 4096).astype(np.uint32)
    raw[:1024] = raw[:1024] & 0xFFFF0000 | 0x8000
    out = np.empty(raw.size, np.float32)
    called(shorten, types.float32, raw.view(np.float32), out, count=raw.size)
    np.testing.assert_array_equal(out.view(np.uint32) >> 16, nearest_bf16(raw.view(np.float32)))


def test_lanes_are_looked_up_by_their_magnitude() -> None:
    load = loader("F32", 8)

    def look_up(given: Any, out: Any, count: int) -> None:
        found = looked_up(out, load(given, 0))
        for lane in range(8):
            out[count + lane] = lane_at(found, lane)

    values = np.array([0, -0.0, 1, -1, 2.5, -(2.0**-100), 3e38, -np.inf], np.float32)
    values = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    table = np.concatenate([np.arange(1 << 15), np.zeros(8)]).astype(np.float32)
    called(look_up, types.float32, values, table, count=1 << 15)
    np.testing.assert_array_equal(table[1 << 15 :], values.view(np.uint32) >> 16 & 0x7FFF)


@pytest.mark.parametrize("seed", range(3))
def test_sums_and_extremes_are_in_the_written_order(seed: int) -> None:
    load = loader("F32", 8)

    def fold(given: Any, out: Any, count: int) -> None:
        a, b, c, d = load(given, 0), load(given, 8), load(given, 16), load(given, 24)
        e, f, g, h = load(given, 32), load(given, 40), load(given, 48), load(given, 56)
        sums = sums_of((a, b, c, d, e, f, g, h))
        for lane in range(8):
            out[lane] = lane_at(sums, lane)
        out[8] = sum_in_order(a)
        out[9] = top_of(a)
        out[10] = lane_of(a, top_of(a))

    values = (np.random.default_rng(seed).random((8, 8)) ** 6).astype(np.float32)
    values[0, 5] = values[0, 2] = 1
    out = np.empty(11, np.float32)
    called(fold, types.float32, values, out, count=64)
    halves = values[:, :4] + values[:, 4:]
    quarters = halves[:, :2] + halves[:, 2:]
    np.testing.assert_array_equal(out[:8], quarters[:, 0] + quarters[:, 1])
    total = np.float32(0)
    for value in values[0]:
        total += value
    assert out[8:].tolist() == [total, 1, 2]
