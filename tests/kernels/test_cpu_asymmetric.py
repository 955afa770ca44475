"""Asymmetric integers by the fused kernels, against plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.errors import UnsupportedError
from schemegen.kernels.cpu_asymmetric import decode_asymmetric, quantize_asymmetric, recode_asymmetric, warm_up

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

FORMATS = [(dtype, num_bits) for dtype in ("BF16", "F16", "F32") for num_bits in (4, 8)]
every_format = pytest.mark.parametrize(("dtype", "num_bits"), FORMATS, ids=str)


def plainly(plain: Any, weights: Array, group_size: int) -> tuple[Array, Array, Array]:
    """Words, scales and words of zero points in plain numpy, a step at a time."""
    lowest, steps = -(2 ** (plain.num_bits - 1)), np.float32(2**plain.num_bits - 1)

    def rounded(values: Array) -> Array:
        return np.asarray(plain.widen(plain.narrow(values))).reshape(values.shape)

    groups = plain.widen(weights).reshape(*weights.shape[:2], -1, group_size)
    with np.errstate(all="ignore"):
        low, high = np.minimum(groups.min(-1), 0), np.maximum(groups.max(-1), 0)
        scales = plain.narrow(rounded(high - low) / steps).reshape(low.shape)
        nothing = (low == 0) & (plain.widen(scales) == 0)
        ratio = rounded(np.where(nothing, np.float32(0), low / plain.widen(scales)))
        zeros = np.where(nothing, 0, np.rint(np.clip(rounded(lowest - ratio), lowest, -lowest - 1)))
        scales[plain.widen(scales) == 0] = plain.narrow(
            [{"BF16": 2.0**-7, "F16": 2.0**-10, "F32": 2.0**-23}[plain.dtype]]
        )[0]
        moved = rounded(rounded(groups / plain.widen(scales)[..., None]) + zeros[..., None].astype(np.float32))
        codes = np.rint(np.clip(moved, lowest, -lowest - 1)).astype(np.int64).reshape(weights.shape)
    packed = np.stack([plain.pack(matrix) for matrix in codes])
    return packed, scales, np.stack([packed_down(plain, matrix) for matrix in zeros.astype(np.int64)])


def packed_down(plain: Any, zeros: Array) -> Array:
    """Words [ceil(rows * bits / 32), groups] of zero points [rows, groups]; no row is all bits zero."""
    rows = zeros.shape[0]
    filled = np.pad(zeros, ((0, -rows % 32), (0, 0)), constant_values=-(2 ** (plain.num_bits - 1)))
    return np.ascontiguousarray(plain.pack(filled.T).T[: -(-rows * plain.num_bits // 32)])


def quantized(weights: Array, dtype: str, num_bits: int, group_size: int) -> tuple[int, Array, Array, Array]:
    matrices, rows, cols = weights.shape
    packed = np.full((matrices, rows, cols * num_bits // 32), 0xDEADBEEF, np.uint32)
    scales = np.full((matrices, rows, cols // group_size), 0xDEAD, weights.dtype)
    zeros = np.full((matrices, -(-rows * num_bits // 32), cols // group_size), 0xDEADBEEF, np.uint32)
    return quantize_asymmetric(weights, dtype, num_bits, group_size, packed, scales, zeros), packed, scales, zeros


def assert_plain(weights: Array, plain: Any, group_size: int) -> None:
    where, *found = quantized(weights, plain.dtype, plain.num_bits, group_size)
    assert where == -1
    for ours, expected in zip(found, plainly(plain, weights, group_size), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.fixture
def tame_bits(weight_bits: Weights, plain_int: Any) -> Callable[..., Array]:
    """Weights [matrices, rows, cols] of every kind but for ranges beyond what the dtype holds."""

    def make(dtype: str, matrices: int, rows: int, cols: int, group_size: int) -> Array:
        bits = weight_bits(dtype, matrices * rows, cols, group_size, rows)
        step = {"BF16": 0x80, "F16": 0x400, "F32": 0x800000}[dtype]
        top = plain_int(dtype, 4).infinity - 2 * step
        magnitude = bits & (2 ** (bits.itemsize * 8 - 1) - 1)
        return np.where(magnitude >= top, bits - 3 * step, bits).astype(bits.dtype).reshape(matrices, rows, cols)

    return make


@every_format
@pytest.mark.parametrize("rows", [1, 7, 8, 13])
def test_quantize_equals_plain_numpy(
    dtype: str, num_bits: int, rows: int, weight_bits: Weights, plain_int: Any
) -> None:
    for group_size, cols in ((32, 416), (96, 96), (352, 352)):
        weights = weight_bits(dtype, 3 * rows, cols, group_size, rows).reshape(3, rows, cols)
        assert_plain(weights, plain_int(dtype, num_bits), group_size)


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_quantize_equals_plain_numpy_for_any_bits(data: st.DataObject, plain_int: Any) -> None:
    plain = plain_int(*data.draw(st.sampled_from(FORMATS)))
    shape = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 9)))
    size = np.dtype(plain.uint).itemsize * 32 * shape[0] * shape[1]
    weights = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), plain.uint).copy()
    weights[weights & plain.infinity == plain.infinity] ^= plain.infinity
    places = st.tuples(st.integers(0, weights.size - 1), st.sampled_from(plain.specials()))
    for place, special in data.draw(st.lists(places, max_size=9)):
        weights[place] = special
    assert_plain(weights.reshape(*shape, 32), plain, 32)


def test_a_group_of_nothing_has_scale_epsilon_and_zero_point_zero() -> None:
    for dtype, epsilon in (("BF16", 0x3C00), ("F16", 0x1400), ("F32", 0x34000000)):
        weights = np.zeros((1, 8, 64), np.uint32 if dtype == "F32" else np.uint16)
        weights[0, 1] = 1 << weights.itemsize * 8 - 1  # -0.0
        _, packed, scales, zeros = quantized(weights, dtype, 4, 32)
        assert set(scales.ravel().tolist()) == {epsilon}
        assert set(packed.ravel().tolist()) == set(zeros.ravel().tolist()) == {0x88888888}


@every_format
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    sign = 1 << np.dtype(plain.uint).itemsize * 8 - 1
    good = np.full((2, 2, 96), plain.infinity - 1, plain.uint)
    _, packed, scales, zeros = quantized(good, dtype, num_bits, 96)
    for bad in (plain.infinity, plain.infinity | sign, plain.infinity + 1, sign - 1, 2 * sign - 1):
        for position in (0, 31, 95, 96, 200, 383):
            weights = good.copy()
            weights.flat[position:] = bad
            assert quantized(weights, dtype, num_bits, 96)[0] == position
            assert recode_asymmetric(weights, dtype, num_bits, 96, packed, scales, zeros) == position


@every_format
def test_recode_finds_every_changed_code(dtype: str, num_bits: int, tame_bits: Callable[..., Array]) -> None:
    weights = tame_bits(dtype, 2, 3, 64, 32)
    _, packed, scales, zeros = quantized(weights, dtype, num_bits, 32)
    assert recode_asymmetric(weights, dtype, num_bits, 32, packed, scales, zeros) == -1
    for bit in range(packed.size * 32):
        changed = packed.copy()
        changed.flat[bit // 32] ^= np.uint32(1 << bit % 32)
        assert recode_asymmetric(weights, dtype, num_bits, 32, changed, scales, zeros) == bit // num_bits


@every_format
def test_recode_finds_every_changed_zero_point(dtype: str, num_bits: int, plain_int: Any) -> None:
    """Where a group has both signs; of one that is all the same, a code is right under several zero points."""
    rows, count = 9, 32 // num_bits
    weights = plain_int(dtype, num_bits).narrow(np.random.default_rng(1).standard_normal((1, rows, 64)))
    _, packed, scales, zeros = quantized(weights, dtype, num_bits, 32)
    for row in range(rows):
        for bit in range(num_bits):
            changed = zeros.copy()
            changed[0, row // count, 1] ^= np.uint32(1 << row % count * num_bits + bit)
            where = recode_asymmetric(weights, dtype, num_bits, 32, packed, scales, changed)
            assert row * 64 + 32 <= where < row * 64 + 64


@every_format
def test_recode_finds_changed_scales(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    weights = plain.narrow(np.random.default_rng(2).standard_normal((1, 8, 64)))
    _, packed, scales, zeros = quantized(weights, dtype, num_bits, 32)
    sign, step = 1 << scales.itemsize * 8 - 1, {"BF16": 0x80, "F16": 0x400, "F32": 0x800000}[dtype]
    for bad in (0, sign, plain.infinity, plain.infinity | sign, plain.infinity + 1):
        for group in (0, 7, 15):
            changed = scales.copy()
            changed.flat[group] = bad
            assert recode_asymmetric(weights, dtype, num_bits, 32, packed, changed, zeros) == group * 32
    for group in range(16):
        for flipped in (sign, step, step >> 1, step >> 2):
            changed = scales.copy()
            changed.flat[group] ^= flipped
            where = recode_asymmetric(weights, dtype, num_bits, 32, packed, changed, zeros)
            assert where // 32 == group


@every_format
def test_decode_subtracts_the_zero_point_and_multiplies(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain, rng = plain_int(dtype, num_bits), np.random.default_rng(9)
    scales = rng.integers(0, plain.infinity, (1, 61, 4)).astype(plain.uint)
    top = 2 ** (num_bits - 1)
    codes, zeros = rng.integers(-top, top, (61, 256)), rng.integers(-top, top, (61, 4))
    with np.errstate(over="ignore", under="ignore"):
        products = (codes.reshape(61, 4, 64) - zeros[..., None]).astype(np.float32) * plain.widen(scales[0])[..., None]
        expected = plain.narrow(products.reshape(61, 256))
    weights = np.empty((1, 61, 256), plain.uint)
    decode_asymmetric(plain.pack(codes)[None], dtype, num_bits, 64, scales, packed_down(plain, zeros)[None], weights)
    np.testing.assert_array_equal(weights[0], expected)


def test_what_does_not_fit_is_refused() -> None:
    weights, packed = np.zeros((1, 4, 64), np.uint16), np.zeros((1, 4, 8), np.uint32)
    scales, zeros = np.zeros((1, 4, 2), np.uint16), np.zeros((1, 1, 2), np.uint32)
    with pytest.raises(ValueError, match="zeros must be"):
        quantize_asymmetric(weights, "BF16", 4, 32, packed, scales, zeros[:, :, :1])
    with pytest.raises(ValueError, match="scales must be"):
        quantize_asymmetric(weights, "BF16", 4, 32, packed, scales[:, :3], zeros)
    with pytest.raises(UnsupportedError, match="does not divide the width 64"):
        quantize_asymmetric(weights, "BF16", 4, 48, packed, scales, zeros)
    with pytest.raises(UnsupportedError, match="5 bits"):
        warm_up("BF16", 5, 32)
