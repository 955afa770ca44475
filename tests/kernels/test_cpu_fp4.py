"""Fused FP4 kernels against plain numpy, a step at a time: the tests' own reading of NVFP4 and MXFP4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.errors import UnsupportedError
from schemegen.kernels.cpu_fp4 import decode_fp4, quantize_fp4, recode_fp4, warm_up
from schemegen.kernels.fp4_numbers import MXFP4, NVFP4, SIZES, global_scales

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

DTYPES = ("BF16", "F16", "F32")
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
# Below 0x78 an exponent of 4 bits and a mantissa of 3; 0x7F is NaN.
E4M3 = np.array([np.ldexp((8 if bits >> 3 else 0) + bits % 8, max(bits >> 3, 1) - 10) for bits in range(0x7F)])
every = pytest.mark.parametrize(("kind", "dtype"), [(kind, dtype) for kind in SIZES for dtype in DTYPES])


def nearest(values: Array, table: Array) -> Array:
    """Indexes of the nearest of a sorted table, the even one of two as near; what is beyond its end is its end."""
    exact = np.asarray(values, np.float64)
    above = np.searchsorted(table, exact).clip(1, table.size - 1)
    low, high = exact - table[above - 1], table[above] - exact
    return np.asarray(np.where((high < low) | ((high == low) & (above % 2 == 0)), above, above - 1))


@dataclass(frozen=True)
class Plain:
    """What a kind makes of groups [groups, size] of one matrix; `number` is the plain dtype."""

    kind: str
    dtype: str
    number: Any

    def scales(self, groups: Array, whole: np.float32) -> Array:
        top = np.abs(groups).max(-1)
        if self.kind == MXFP4:
            return self._exponents(top)
        local = self.number.widen(self.number.narrow(top / np.float32(6)))
        stored = nearest(local * whole, E4M3)
        return np.where(stored == 0, 0x20, stored).astype(np.uint8)

    def _exponents(self, top: Array) -> Array:
        """The power of two of a magnitude, of the next one from 1.75 times it on, less 2."""
        smallest = {"BF16": -126, "F16": -14, "F32": -126}[self.dtype]
        fraction, power = np.frexp(top.astype(np.float64))
        found = power - 1 + (fraction >= 0.875) - 2 + 127
        found = np.where(top < 2.0**smallest, smallest - 2 + 127, found).clip(0)
        nothing = 127 if self.dtype == "F16" else 0
        return np.where(top < 0.75 * 2.0**smallest, nothing, found).astype(np.uint8)

    def codes(self, groups: Array, scales: Array, whole: np.float32) -> Array:
        quotients = groups / self.values(scales, whole)[:, None]
        if self.kind == MXFP4:
            quotients = self.number.widen(self.number.narrow(quotients)).reshape(groups.shape)
        return np.asarray(nearest(np.abs(quotients), E2M1) | (quotients < 0) << 3, np.uint8)

    def values(self, scales: Array, whole: np.float32) -> Array:
        """F32 scales."""
        if self.kind == MXFP4:
            return np.ldexp(np.float32(1), scales.astype(np.int64) - 127)
        return np.asarray(E4M3.astype(np.float32)[scales] / whole)

    def quantize(self, weights: Array, whole: np.float32) -> tuple[Array, Array]:
        """Packed and scales of weights [rows, cols]."""
        groups = self.number.widen(weights).reshape(-1, SIZES[self.kind])
        with np.errstate(all="ignore"):
            scales = self.scales(groups, whole)
            codes = self.codes(groups, scales, whole).reshape(weights.shape)
        return codes[:, ::2] | codes[:, 1::2] << 4, scales.reshape(weights.shape[0], -1)


def wholes_of(kind: str, weights: Array, dtype: str, number: Any) -> Array:
    largest = np.abs(number.widen(weights)).reshape(len(weights), -1).max(-1)
    return global_scales(largest, dtype) if kind == NVFP4 else np.ones(len(weights), np.float32)


def quantized(kind: str, weights: Array, dtype: str, wholes: Array) -> tuple[int, Array, Array]:
    matrices, rows, cols = weights.shape
    packed = np.full((matrices, rows, cols // 2), 0xAD, np.uint8)
    scales = np.full((matrices, rows, cols // SIZES[kind]), 0xAD, np.uint8)
    return quantize_fp4(kind, weights, dtype, packed, scales, wholes), packed, scales


def check(kind: str, dtype: str, weights: Array, number: Any) -> None:
    """Codes, scales and decoded weights of [matrices, rows, cols] are the plain ones."""
    wholes, plain = wholes_of(kind, weights, dtype, number), Plain(kind, dtype, number)
    where, packed, scales = quantized(kind, weights, dtype, wholes)
    assert where == -1
    assert recode_fp4(kind, weights, dtype, packed, scales, wholes) == -1
    restored = np.empty_like(weights)
    decode_fp4(kind, packed, dtype, scales, wholes, restored)
    for matrix, whole in enumerate(wholes):
        expected_packed, expected_scales = plain.quantize(weights[matrix], whole)
        np.testing.assert_array_equal(scales[matrix], expected_scales)
        np.testing.assert_array_equal(packed[matrix], expected_packed)
        np.testing.assert_array_equal(restored[matrix], decoded(plain, packed[matrix], scales[matrix], whole))


def decoded(plain: Plain, packed: Array, scales: Array, whole: np.float32) -> Array:
    """Bits of the dtype, by way of BF16."""
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(-1, SIZES[plain.kind])
    values = np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7]).astype(np.float32)
    with np.errstate(all="ignore"):
        half = type(plain.number)("BF16", 4)
        rounded = half.widen(half.narrow(values * plain.values(scales.reshape(-1), whole)[:, None]))
        return np.asarray(plain.number.narrow(rounded)).reshape(packed.shape[0], -1)


@every
def test_bits_equal_plain_numpy(kind: str, dtype: str, weight_bits: Weights, plain_int: Any) -> None:
    weights = np.stack([weight_bits(dtype, 33, 416, SIZES[kind], seed) for seed in (1, 2)])
    check(kind, dtype, weights, plain_int(dtype, 4))


@every
def test_quotients_between_two_codes_go_to_the_even_one(kind: str, dtype: str, plain_int: Any) -> None:
    number = plain_int(dtype, 4)
    quarters = np.arange(-24, 25, dtype=np.float32) / 4
    rows = np.resize(quarters, (49, SIZES[kind]))
    rows[:, 0] = 6
    for power in (-8, 0, 6):
        check(kind, dtype, number.narrow(np.ldexp(rows, power))[None], number)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_bits_equal_plain_numpy_for_any_bits(data: st.DataObject, plain_int: Any) -> None:
    kind, dtype = data.draw(st.sampled_from(list(SIZES))), data.draw(st.sampled_from(DTYPES))
    number = plain_int(dtype, 4)
    matrices, rows = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    cols = SIZES[kind] * data.draw(st.integers(1, 3))
    size = matrices * rows * cols * np.dtype(number.uint).itemsize
    weights = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), number.uint).copy()
    weights[weights & number.infinity == number.infinity] ^= number.infinity
    places = st.tuples(st.integers(0, weights.size - 1), st.sampled_from(number.specials()))
    for place, special in data.draw(st.lists(places, max_size=9)):
        weights[place] = special
    check(kind, dtype, weights.reshape(matrices, rows, cols), number)


@every
def test_zeros_have_scales_and_a_sign_that_was_not_below_zero_is_lost(kind: str, dtype: str, plain_int: Any) -> None:
    number = plain_int(dtype, 4)
    weights = np.zeros((1, 2, 64), number.uint)
    weights[0, 1] = 1 << weights.itemsize * 8 - 1  # -0.0
    where, packed, scales = quantized(kind, weights, dtype, np.ones(1, np.float32))
    assert where == -1
    assert not packed.any()
    assert set(scales.ravel().tolist()) == {{NVFP4: 0x20, MXFP4: 127 if dtype == "F16" else 0}[kind]}


def test_mxfp4_keeps_the_largest_weights_where_rounding_up_would_leave_the_range() -> None:
    weights = np.full((1, 1, 32), 0x7F7F, np.uint16)
    _, packed, scales = quantized(MXFP4, weights, "BF16", np.ones(1, np.float32))
    assert scales.tolist() == [[[253]]]
    assert set(packed.ravel().tolist()) == {0x66}


@every
def test_no_rows_are_nothing_to_do(kind: str, dtype: str, plain_int: Any) -> None:
    weights = np.empty((1, 0, 64), plain_int(dtype, 4).uint)
    where, packed, scales = quantized(kind, weights, dtype, np.ones(1, np.float32))
    assert where == -1
    assert recode_fp4(kind, weights, dtype, packed, scales, np.ones(1, np.float32)) == -1


@every
def test_the_first_weight_that_is_not_finite_is_named(kind: str, dtype: str, plain_int: Any) -> None:
    number = plain_int(dtype, 4)
    sign = 1 << np.dtype(number.uint).itemsize * 8 - 1
    good, wholes = np.full((2, 9, 64), number.infinity - 1, number.uint), np.full(2, 0.5, np.float32)
    _, packed, scales = quantized(kind, good, dtype, wholes)
    for bad in (number.infinity, number.infinity | sign, number.infinity + 1, sign - 1):
        for position in (0, 15, 16, 511, 575, 576, 1151):
            weights = good.copy()
            weights.flat[position:] = bad
            assert quantized(kind, weights, dtype, wholes)[0] == position
            assert recode_fp4(kind, weights, dtype, packed, scales, wholes) == position


@every
def test_recode_finds_every_changed_bit_of_a_code(kind: str, dtype: str, weight_bits: Weights, plain_int: Any) -> None:
    weights = np.stack([weight_bits(dtype, 1, 64, SIZES[kind], seed) for seed in (3, 4)])
    wholes = wholes_of(kind, weights, dtype, plain_int(dtype, 4))
    _, packed, scales = quantized(kind, weights, dtype, wholes)
    for bit in range(packed.size * 8):
        changed = packed.copy()
        changed.flat[bit // 8] ^= np.uint8(1 << bit % 8)
        assert recode_fp4(kind, weights, dtype, changed, scales, wholes) == bit // 4


@every
def test_recode_rounds_under_the_stored_scales(kind: str, dtype: str, plain_int: Any) -> None:
    number, rng = plain_int(dtype, 4), np.random.default_rng(5)
    weights = number.narrow(rng.standard_normal((1, 40, 64)).astype(np.float32))
    scales = rng.integers(0x20, 0x70, (1, 40, 64 // SIZES[kind])).astype(np.uint8) + (64 if kind == MXFP4 else 0)
    whole = np.float32(3.7)
    plain = Plain(kind, dtype, number)
    with np.errstate(all="ignore"):
        codes = plain.codes(number.widen(weights).reshape(-1, SIZES[kind]), scales.reshape(-1), whole).reshape(40, 64)
    own = (codes[:, ::2] | codes[:, 1::2] << 4)[None]
    wholes = np.full(1, whole)
    assert recode_fp4(kind, weights, dtype, own, scales, wholes) == -1
    _, packed, _ = quantized(kind, weights, dtype, wholes_of(kind, weights, dtype, number))
    found = recode_fp4(kind, weights, dtype, packed, scales, wholes)
    differs = np.flatnonzero((np.stack([packed & 15, packed >> 4], -1).reshape(40, 64) != codes).ravel())
    assert found == differs[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_recode_refuses_scales_that_are_none(dtype: str, plain_int: Any) -> None:
    weights = plain_int(dtype, 4).narrow(np.ones((1, 2, 64), np.float32))
    for kind, bad in ((NVFP4, (0, 0x80, 0x7F, 0xFF)), (MXFP4, (0xFF,))):
        wholes = np.ones(1, np.float32)
        _, packed, scales = quantized(kind, weights, dtype, wholes)
        for value in bad:
            changed = scales.copy()
            changed.flat[1] = value
            assert recode_fp4(kind, weights, dtype, packed, changed, wholes) == SIZES[kind]
    _, packed, scales = quantized(NVFP4, weights, dtype, np.ones(1, np.float32))
    for whole in (0.0, np.inf, np.nan, 1e-45):
        assert recode_fp4(NVFP4, weights, dtype, packed, scales, np.full(1, whole, np.float32)) >= 0


def test_what_does_not_fit_is_refused() -> None:
    weights, ones = np.zeros((1, 2, 64), np.uint16), np.ones(1, np.float32)
    good = np.empty((1, 2, 32), np.uint8), np.empty((1, 2, 4), np.uint8)
    with pytest.raises(UnsupportedError, match="F8_E4M3"):
        quantize_fp4(NVFP4, weights, "F8_E4M3", *good, ones)
    with pytest.raises(UnsupportedError, match="width 40"):
        quantize_fp4(NVFP4, weights[..., :40], "BF16", *good, ones)
    wrongs: tuple[tuple[Any, ...], ...] = (
        (weights.view(np.int16), *good, ones),
        (weights, good[0][..., :31], good[1], ones),
        (weights, good[0], good[1].view(np.int8), ones),
        (weights, *good, np.ones(2, np.float32)),
        (weights, *good, np.ones(1)),
    )
    for wrong, packed, scales, wholes in wrongs:
        with pytest.raises(ValueError, match="C-contiguous"):
            quantize_fp4(NVFP4, wrong, "BF16", packed, scales, wholes)


def test_warm_up_compiles_what_quantize_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("schemegen.kernels.native.address", lambda *name: asked.append(name))
    warm_up(NVFP4, "BF16")
    assert asked == [("fp4", "quantize", NVFP4, "BF16")]
