from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels import mx, small_floats

Array = npt.NDArray[Any]

ALL_8 = np.arange(256, dtype=np.uint8)
MANTISSAS = {"BF16": 7, "F16": 10, "F32": 23}


def over(function: Any, values: Array, dtype: type) -> Array:
    """A compiled scalar function of every element."""

    @numba.njit(error_model="numpy")
    def apply(values: Array, out: Array) -> None:
        for i in range(values.size):
            out[i] = function(values[i])

    out: Array = np.empty(values.size, dtype)
    apply(values, out)
    return out


def e4m3_values() -> Array:
    """What E4M3 bits stand for, read off the format: sign, exponent of bias 7, mantissa of 3 bits."""
    exponent, mantissa = ALL_8 >> 3 & 15, (ALL_8 & 7).astype(np.float64)
    normal = np.ldexp(1 + mantissa / 8, exponent.astype(int) - 7)
    values = np.where(exponent == 0, mantissa * 2.0**-9, normal) * np.where(ALL_8 < 128, 1, -1)
    values[[0x7F, 0xFF]] = np.nan
    return values


@pytest.fixture(scope="module")
def clamped() -> Array:
    """F32 within E4M3's range: of every exponent, and both neighbours of every E4M3 and of every midpoint of two."""
    rng = np.random.default_rng(0)
    values = e4m3_values()[:0x7F].astype(np.float32)
    edges = np.concatenate([values, (values[1:] + values[:-1]) / 2]).view(np.uint32)
    near = np.concatenate([edges, edges[edges > 0] - np.uint32(1), edges + np.uint32(1)]).view(np.float32)
    random = rng.integers(0, 2**32, 2**18, dtype=np.uint32).view(np.float32)
    spread = (rng.standard_normal(2**16) * 2.0 ** rng.integers(-14, 8, 2**16)).astype(np.float32)
    every = np.concatenate([near, random, spread])
    every = every[np.abs(every) <= 448]
    return np.concatenate([every, -every])


def test_every_e4m3_widens_to_what_it_stands_for() -> None:
    found = over(small_floats.e4m3_to_f32, ALL_8, np.float32)
    expected = e4m3_values().astype(np.float32)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(found.view(np.uint32)[number], expected.view(np.uint32)[number])
    assert np.isnan(found[~number]).all()


def test_f32_narrows_to_the_nearest_e4m3_and_half_to_even(clamped: Array) -> None:
    found = over(small_floats.f32_to_e4m3, clamped, np.uint8)
    np.testing.assert_array_equal(found >= 128, np.signbit(clamped))
    values, exact = e4m3_values()[:0x7F], np.abs(clamped).astype(np.float64)
    above = np.clip(np.searchsorted(values, exact), 1, 0x7E)
    down, up = exact - values[above - 1], values[above] - exact
    expected = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, above - 1)
    np.testing.assert_array_equal(found & 0x7F, expected)


def test_f32_narrows_to_e4m3_as_torch_does(clamped: Array) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.from_numpy(clamped).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    np.testing.assert_array_equal(over(small_floats.f32_to_e4m3, clamped, np.uint8), expected)


def test_e8m0_and_its_reciprocal_are_powers_of_two() -> None:
    exponents = ALL_8[:-1].astype(int) - 127
    found = over(small_floats.e8m0_to_f32, ALL_8[:-1], np.float32)
    np.testing.assert_array_equal(found, np.ldexp(np.ones(255, np.float32), exponents))
    found = over(small_floats.e8m0_reciprocal, ALL_8[:-1], np.float32)
    np.testing.assert_array_equal(found, np.ldexp(np.ones(255, np.float32), -exponents))


def magnitudes(dtype: str) -> Array:
    """Bits of finite magnitudes: all of 16-bit dtypes, of F32 some of every exponent."""
    infinity = {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F800000}[dtype]
    if dtype != "F32":
        return np.arange(infinity, dtype=np.uint16)
    starts = np.arange(0, infinity, 1 << 23)[:, None]
    ends = [0, 1, 0x5FFFFF, 0x600000, 0x7FFFFF, *np.random.default_rng(1).integers(0, 1 << 23, 40)]
    return np.asarray((starts + np.array(ends)).astype(np.uint32).ravel())


def value_of(bits: Array, dtype: str) -> Array:
    if dtype == "BF16":
        return np.asarray((bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
    return np.asarray(bits.view(np.float16 if dtype == "F16" else np.float32).astype(np.float64))


@pytest.mark.parametrize("offset", [mx.E4M3_OFFSET, mx.E2M1_OFFSET])
@pytest.mark.parametrize("dtype", MANTISSAS)
def test_mx_scales_are_the_nearest_power_of_two_below_the_codes_largest(dtype: str, offset: int) -> None:
    bits = magnitudes(dtype)
    fraction, exponent = np.frexp(value_of(bits, dtype))
    rounded = np.where(fraction >= 0.875, exponent, exponent - 1)
    smallest = -14 if dtype == "F16" else -126
    # Of a subnormal, which has no leading one, only what the rounding lifts to the smallest normal counts.
    subnormal = bits < 1 << MANTISSAS[dtype]
    lifted = bits >= 3 << MANTISSAS[dtype] - 2
    expected = np.where(subnormal, np.where(lifted, smallest, -1000), rounded) + 127 - offset
    expected = np.where((expected < -500) & (dtype == "F16"), 127, np.maximum(expected, 0))
    found = over(small_floats.mx_exponent(dtype, offset), bits, np.uint8)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("offset", "num_bits"), [(mx.E4M3_OFFSET, 8), (mx.E2M1_OFFSET, 4)])
@pytest.mark.parametrize("dtype", MANTISSAS)
def test_mx_scales_equal_compressed_tensors_where_it_keeps_within_the_dtype(
    dtype: str, offset: int, num_bits: int
) -> None:
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("compressed_tensors.quantization")
    compress = pytest.importorskip("compressed_tensors.compressors.mx_utils").compress_mx_scale
    bits = magnitudes(dtype)
    signed = {2: torch.int16, 4: torch.int32}[bits.itemsize]
    kind = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype]
    values = torch.from_numpy(bits.view(f"i{bits.itemsize}")).view(signed).view(kind)
    args = peer.QuantizationArgs(
        num_bits=num_bits, type="float", strategy="group", group_size=32, scale_dtype="uint8", zp_dtype="uint8"
    )
    scales, _ = peer.utils.calculate_qparams(-values, values, args)
    theirs = compress(scales, torch.uint8).numpy()
    found = over(small_floats.mx_exponent(dtype, offset), bits, np.uint8)
    within = ~scales.isinf().numpy()
    assert within.sum() > 0.99 * within.size
    np.testing.assert_array_equal(found[within], theirs[within])
    assert set(theirs[~within]) == {127}
