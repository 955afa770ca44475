"""The fused FP8 kernels against plain numpy, a step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.errors import UnsupportedError
from schemegen.kernels import cpu_fp8
from schemegen.kernels.arrays import scales_of
from schemegen.kernels.cpu_fp8 import decode_fp8, quantize_fp8, quantize_fp8_under, recode_fp8

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

DTYPES = ("BF16", "F16", "F32")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
# Rows, blocks that divide the matrix, blocks that do not, and blocks larger than it.
CELLS = [(1, 160), (8, 32), (6, 48), (7, 33), (64, 200)]
every_cell = pytest.mark.parametrize("cell", CELLS, ids=str)
E4M3 = np.array([m / 512 for m in range(8)] + [(8 + m) * 2.0 ** (e - 10) for e in range(1, 16) for m in range(8)][:-1])


def nearest_e4m3(values: Array) -> Array:
    """Codes of F32 within -448 to 448: the nearest, the even one of two as near."""
    exact = np.abs(values).astype(np.float64)
    above = np.clip(np.searchsorted(E4M3, exact), 1, len(E4M3) - 1)
    down, up = exact - E4M3[above - 1], E4M3[above] - exact
    nearest = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, above - 1)
    return (nearest | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def expanded(scales: Array, cell: tuple[int, int], shape: tuple[int, ...]) -> Array:
    """A scale for every weight."""
    return scales.repeat(cell[0], 1).repeat(cell[1], 2)[:, : shape[1], : shape[2]]


class PlainFp8:
    """What the kernels promise, in numpy; `numbers` converts between bits and values of the dtype."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def scales(self, weights: Array, cell: tuple[int, int]) -> Array:
        _, rows, cols = weights.shape
        values = np.abs(self.numbers.widen(weights))
        height, width = cell
        tops = [
            [[m[r : r + height, c : c + width].max() for c in range(0, cols, width)] for r in range(0, rows, height)]
            for m in values
        ]
        scales = self.numbers.narrow(np.array(tops, np.float32) / np.float32(448))
        epsilon = {"BF16": 2.0**-7, "F16": 2.0**-10, "F32": 2.0**-23}[self.numbers.dtype]
        return np.asarray(np.where(self.numbers.widen(scales) == 0, self.numbers.narrow([epsilon]), scales))

    def codes(self, weights: Array, scales: Array, cell: tuple[int, int]) -> Array:
        wide = self.numbers.widen(weights) / expanded(self.numbers.widen(scales), cell, weights.shape)
        return nearest_e4m3(np.clip(self.numbers.widen(self.numbers.narrow(wide)), -448, 448))

    def restored(self, codes: Array, scales: Array, cell: tuple[int, int]) -> Array:
        values = np.where(codes < 128, 1, -1) * E4M3[codes & 0x7F]
        wide = values.astype(np.float32) * expanded(self.numbers.widen(scales), cell, codes.shape)
        return np.asarray(self.numbers.narrow(wide))


@pytest.fixture
def plain(plain_int: Any) -> Callable[[str], PlainFp8]:
    return lambda dtype: PlainFp8(plain_int(dtype, 8))


def quantized(weights: Array, dtype: str, cell: tuple[int, int]) -> tuple[int, Array, Array]:
    matrices, rows, cols = weights.shape
    codes = np.full(weights.shape, 0x55, np.uint8)
    scales = np.full((matrices, -(-rows // cell[0]), -(-cols // cell[1])), 0xDEAD, weights.dtype)
    return quantize_fp8(weights, dtype, cell, codes, scales), codes, scales


def matrices(weight_bits: Weights, dtype: str, seed: int = 0) -> Array:
    return weight_bits(dtype, 3 * 40, 160, 32, seed).reshape(3, 40, 160)


@every_dtype
@every_cell
def test_bits_equal_plain_numpy(dtype: str, cell: tuple[int, int], weight_bits: Weights, plain: Any) -> None:
    weights = matrices(weight_bits, dtype)
    where, codes, scales = quantized(weights, dtype, cell)
    assert where == -1
    with np.errstate(under="ignore", over="ignore"):
        np.testing.assert_array_equal(scales, plain(dtype).scales(weights, cell))
        np.testing.assert_array_equal(codes, plain(dtype).codes(weights, scales, cell))
        restored = np.empty_like(weights)
        decode_fp8(codes, dtype, cell, scales, restored)
        np.testing.assert_array_equal(restored, plain(dtype).restored(codes, scales, cell))
    assert recode_fp8(weights, dtype, cell, codes, scales) == -1


@every_dtype
def test_given_scales_are_used_and_made_from_magnitudes(dtype: str, weight_bits: Weights, plain: Any) -> None:
    weights = matrices(weight_bits, dtype)
    weights[1] = 0
    whole = plain(dtype)
    tops = np.abs(whole.numbers.widen(weights)).max((1, 2))
    with np.errstate(under="ignore", over="ignore"):
        scales = scales_of(tops, dtype, cpu_fp8.LARGEST).reshape(-1, 1, 1)
        np.testing.assert_array_equal(scales, whole.scales(weights, (40, 160)))
        codes = np.empty(weights.shape, np.uint8)
        assert quantize_fp8_under(weights, dtype, codes, scales) == -1
        np.testing.assert_array_equal(codes, whole.codes(weights, scales, (40, 160)))


@every_dtype
@every_cell
def test_recode_finds_the_first_changed_code(dtype: str, cell: tuple[int, int], weight_bits: Weights) -> None:
    weights = matrices(weight_bits, dtype)
    _, codes, scales = quantized(weights, dtype, cell)
    for position in (0, 31, 32, 159, 160, 3199, 6400, 19199):
        for bit in range(8):
            changed = codes.copy()
            changed.flat[position] ^= 1 << bit
            changed.flat[-1] ^= 1
            if position != weights.size - 1 or bit:
                assert recode_fp8(weights, dtype, cell, changed, scales) == position


@every_dtype
@every_cell
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, cell: tuple[int, int], plain_int: Any) -> None:
    numbers = plain_int(dtype, 8)
    sign = 1 << np.dtype(numbers.uint).itemsize * 8 - 1
    good = np.tile(numbers.narrow([1.0]), (3, 40, 160))
    _, codes, scales = quantized(good, dtype, cell)
    for bad in (numbers.infinity, numbers.infinity | sign, sign - 1):
        for position in (0, 33, 161, 6399, 6400, 19199):
            weights = good.copy()
            weights.flat[[position, -1]] = bad
            assert quantized(weights, dtype, cell)[0] == position
            assert quantize_fp8_under(weights, dtype, codes, scales[:, :1, :1].copy()) == position
            assert recode_fp8(weights, dtype, cell, codes, scales) == position


@every_dtype
def test_no_rows_are_nothing_to_do(dtype: str) -> None:
    weights = np.empty((2, 0, 64), np.uint32 if dtype == "F32" else np.uint16)
    where, codes, scales = quantized(weights, dtype, (1, 64))
    assert where == recode_fp8(weights, dtype, (1, 64), codes, scales) == -1


def test_what_does_not_fit_is_refused_before_an_address_is_used() -> None:
    weights, codes, scales = np.zeros((1, 4, 64), np.uint16), np.zeros((1, 4, 64), np.uint8), np.zeros(4, np.uint16)
    good: list[Any] = [weights, "BF16", (1, 64), codes, scales.reshape(1, 4, 1)]
    assert quantize_fp8(*good) == -1
    frozen = codes.copy()
    frozen.flags.writeable = False
    misfits: list[tuple[int, Any]] = [
        (0, weights.astype(np.uint32)),
        (2, (2, 64)),
        (2, (1, 32)),
        (3, codes[:, :3]),
        (3, frozen),
        (4, scales.reshape(1, 1, 4)),
    ]
    for place, misfit in misfits:
        given = [misfit if number == place else argument for number, argument in enumerate(good)]
        with pytest.raises(ValueError, match="must be"):
            quantize_fp8(*given)
    with pytest.raises(UnsupportedError, match=r"'I8'.*BF16, F16, F32"):
        quantize_fp8(weights, "I8", (1, 64), codes, scales)
    with pytest.raises(UnsupportedError, match="width 40 does not hold whole groups of 32"):
        quantize_fp8(weights[..., :40], "BF16", (1, 32), codes, scales, True)


@every_dtype
def test_mx_codes_are_those_of_the_power_of_two(dtype: str, weight_bits: Weights, plain: Any) -> None:
    weights = matrices(weight_bits, dtype)
    codes, scales = np.empty(weights.shape, np.uint8), np.empty((3, 40, 5), np.uint8)
    assert quantize_fp8(weights, dtype, (1, 32), codes, scales, True) == -1
    assert scales.max() < 255
    powers = np.ldexp(np.float32(1), scales.astype(int) - 127)
    wide = plain(dtype).numbers.widen(weights) / powers.repeat(32, 2)
    np.testing.assert_array_equal(codes, nearest_e4m3(np.clip(wide, -448, 448)))
    assert np.abs(wide).max() <= 448 + 1
    assert recode_fp8(weights, dtype, (1, 32), codes, scales, True) == -1
    codes[1, 3, 40] ^= 1
    assert recode_fp8(weights, dtype, (1, 32), codes, scales, True) == (40 + 3) * 160 + 40
