"""Runs of any length, at any place: blocks written out, and what is left over."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba import types
from numpy import uint32 as u32

from schemegen.kernels import native
from schemegen.kernels.bits import inline
from schemegen.kernels.compiler import Source, emit
from schemegen.kernels.straight import comparer, filler

BLOCK = 8
WORDS = types.CPointer(types.uint32)
SIGNATURE = types.int64(WORDS, WORDS, types.int64, types.int64, types.uint32)


@inline
def product(item: Any, factor: Any) -> Any:
    return u32(item * factor)


@inline
def difference(item: Any, other: Any, factor: Any) -> Any:
    return u32(u32(item * factor) ^ other)


def compiled(function: Any) -> Any:
    """The function as a ctypes function, and what keeps its code alive."""
    code = emit(Source(function, SIGNATURE), native.SYMBOL, native.target_machine())
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), native.target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32
    )
    return kind(engine.get_function_address(native.SYMBOL)), engine


@pytest.fixture(scope="module")
def fill() -> Any:
    run = filler(product, BLOCK)

    def kernel(source: Any, target: Any, start: int, stop: int, factor: int) -> int:
        run(source, target, start, stop, factor)
        return 0

    return compiled(kernel)


@pytest.fixture(scope="module")
def compare() -> Any:
    run = comparer(difference, BLOCK)

    def kernel(source: Any, target: Any, start: int, stop: int, factor: int) -> int:
        return int(run(source, target, start, stop, factor))

    return compiled(kernel)


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (3, 29), (3, 3), (5, 12), (0, 8), (1, 18), (39, 40)])
def test_a_run_is_filled_and_nothing_beside_it(fill: Any, start: int, stop: int) -> None:
    source, target = np.arange(40, dtype=np.uint32), np.full(40, 7, np.uint32)
    fill[0](source.ctypes.data, target.ctypes.data, start, stop, 3)
    expected = np.full(40, 7, np.uint32)
    expected[start:stop] = 3 * source[start:stop]
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (3, 29), (3, 3), (5, 12), (0, 8), (1, 18), (39, 40)])
def test_the_first_difference_of_a_run_is_found_and_none_beside_it(compare: Any, start: int, stop: int) -> None:
    source = np.arange(40, dtype=np.uint32)
    for wrong in range(40):
        target = 3 * source
        target[wrong:] += 1
        found = compare[0](source.ctypes.data, target.ctypes.data, start, stop, 3)
        assert found == (max(wrong, start) if max(wrong, start) < stop else -1)
