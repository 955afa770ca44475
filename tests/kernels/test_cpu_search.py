"""Scales that are searched for: fused kernels against plain numpy, torch, and what must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.errors import UnsupportedError
from schemegen.kernels.cpu import decode_int, quantize_int, recode_int
from schemegen.kernels.cpu_search import is_mse_fused, is_signed_fused, quantize_mse, quantize_signed
from schemegen.kernels.signed_grid import OTHERS, least_top, places_of

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

every_dtype = pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
every_width = pytest.mark.parametrize("num_bits", [4, 8])
# Each needs its own machine code: of one block, of several, and of blocks of eight.
GROUPS = {"BF16": (32, 96, 8, 24), "F16": (96,), "F32": (32, 96)}


def made(kernel: Any, weights: Array, *options: Any) -> tuple[int, Array, Array]:
    """Where a weight is not finite, words and scales; the options end with bits and group size."""
    num_bits, group_size = options[-2:]
    packed = np.full((len(weights), weights.shape[1] * num_bits // 32), 0xDEADBEEF, np.uint32)
    scales = np.full((len(weights), weights.shape[1] // group_size), 0xDEAD, weights.dtype)
    return kernel(weights, *options, packed, scales), packed, scales


def signed(weights: Array, dtype: str, num_bits: int, group_size: int) -> tuple[int, Array, Array]:
    return made(quantize_signed, weights, dtype, num_bits, group_size)


def plain_scale(group: npt.NDArray[np.float32], dtype: str, num_bits: int) -> np.float32 | None:
    """The scale of one group, not yet rounded, step by step as it is told; None where minmax's is taken."""
    f32 = np.float32
    high, low = max(group.max(), f32(0)), max((-group).max(), f32(0))
    top, sign = max(high, low), f32(-1) if high > low else f32(1)
    if top < f32(least_top(dtype, num_bits)):
        return None
    length, places = 2 ** (num_bits - 1), places_of(num_bits)
    tries = [(place, -length, length - 1, f32(1)) for place in places]
    tries += [(places[other], 1 - length, length, f32(-1)) for other in OTHERS]
    best, chosen = f32(-1), f32(0)
    for place, lowest, highest, turned in tries:
        scaled = group * f32(f32(sign / top) * f32(place))
        codes = np.clip(np.rint(scaled), lowest, highest).astype(f32)
        product = f32(lanes_sum(scaled * codes) * f32(1 / place))
        scale = f32(product / lanes_sum(codes * codes))
        if product * scale > best:
            best, chosen = f32(product * scale), f32(scale * turned)
    return f32(f32(sign * top) * chosen)


def lanes_sum(terms: npt.NDArray[np.float32]) -> np.float32:
    lanes = terms[:8].copy()
    for first in range(8, len(terms), 8):
        lanes += terms[first : first + 8]
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    total: np.float32 = lanes[0]
    return total


@every_width
@pytest.mark.parametrize(("dtype", "group_size"), [(dtype, size) for dtype in GROUPS for size in GROUPS[dtype]])
def test_signed_scales_are_as_told(
    dtype: str, num_bits: int, group_size: int, weight_bits: Weights, plain_int: Any
) -> None:
    plain = plain_int(dtype, num_bits)
    weights = weight_bits(dtype, 23, group_size * 5, group_size, num_bits)
    where, packed, scales = signed(weights, dtype, num_bits, group_size)
    expected = plain.scales(weights, group_size)
    for place, group in enumerate(plain.widen(weights).reshape(-1, group_size)):
        with np.errstate(under="ignore"):
            scale = plain_scale(group, dtype, num_bits)
        if scale is not None:
            expected.flat[place] = plain.narrow([scale])[0]
    assert where == -1
    np.testing.assert_array_equal(scales, expected)
    np.testing.assert_array_equal(packed, plain.pack(plain.codes(weights, scales)))
    assert recode_int(weights, dtype, num_bits, group_size, packed, scales) == -1


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_signed_bits_equal_torch_for_any_bits(data: st.DataObject, plain_int: Any) -> None:
    pytest.importorskip("torch")
    from schemegen.kernels import torch_signed

    dtype, num_bits = data.draw(st.sampled_from([(dtype, bits) for dtype in ("BF16", "F16", "F32") for bits in (4, 8)]))
    group_size, plain = data.draw(st.sampled_from(GROUPS[dtype])), plain_int(dtype, num_bits)
    rows, size = data.draw(st.integers(1, 3)), np.dtype(plain.uint).itemsize * group_size
    weights = np.frombuffer(data.draw(st.binary(min_size=rows * size, max_size=rows * size)), plain.uint).copy()
    weights[weights & plain.infinity == plain.infinity] ^= plain.infinity
    # Now and then all of one magnitude, or nearly.
    weights &= np.array(data.draw(st.sampled_from([2**32 - 1, 0x80008000, 0x80018001, 0xFF00FF00])), "u4").astype(
        plain.uint
    )
    weights = weights.reshape(rows, group_size)
    where, packed, scales = signed(weights, dtype, num_bits, group_size)
    theirs = made(torch_signed.quantize_signed, weights, dtype, num_bits, group_size)
    assert where == theirs[0] == -1
    np.testing.assert_array_equal(scales, theirs[2])
    np.testing.assert_array_equal(packed, theirs[1])


@every_dtype
@every_width
def test_no_row_depends_on_another(dtype: str, num_bits: int, weight_bits: Weights) -> None:
    weights = weight_bits(dtype, 17, 192, 96, 1)
    _, packed, scales = signed(weights, dtype, num_bits, 96)
    for row in range(17):
        _, its_words, its_scales = signed(weights[row : row + 1], dtype, num_bits, 96)
        np.testing.assert_array_equal(its_words[0], packed[row])
        np.testing.assert_array_equal(its_scales[0], scales[row])


def error_of(values: Array, packed: Array, scales: Array, num_bits: int, plain: Any) -> npt.NDArray[np.float64]:
    """Squared errors [groups] of F32 weights, code times scale in F64."""
    mask, count = 2**num_bits - 1, 32 // num_bits
    codes = packed[..., None] >> (np.arange(count) * num_bits).astype(np.uint32) & mask
    codes = codes.reshape(*scales.shape, -1).astype(np.float64) - 2 ** (num_bits - 1)
    return np.asarray(((values.reshape(codes.shape) - codes * plain.widen(scales)[..., None]) ** 2).sum(-1))


@pytest.mark.parametrize("kind", ["normal", "heavy", "grid", "minmax"])
@every_width
@pytest.mark.parametrize("group_size", [32, 128])
def test_no_group_is_worse_than_with_minmax(kind: str, num_bits: int, group_size: int, plain_int: Any) -> None:
    """F32 weights, whose scales and quotients are hardly rounded: the rest of what can be lost is a few parts in 2**20.

    The winner takes at least as much off the error as minmax's codes with the best scale for them.
    """
    rng = np.random.default_rng(group_size)
    values = rng.standard_normal((400, group_size))
    if kind == "heavy":
        values = rng.standard_t(1.5, values.shape)
    if kind in ("grid", "minmax"):
        values = rng.integers(-(2 ** (num_bits - 1)), 2 ** (num_bits - 1), values.shape).astype(np.float64)
    if kind == "minmax":
        values[:, 0] = 2 ** (num_bits - 1) - 0.5
    weights = values.astype(np.float32).view(np.uint32)
    plain = plain_int("F32", num_bits)
    errors = []
    for kernel in (quantize_signed, quantize_int):
        _, packed, scales = made(kernel, weights, "F32", num_bits, group_size)
        errors.append(error_of(weights.view(np.float32), packed, scales, num_bits, plain))
    allowed = 2.0**-20 * (weights.view(np.float32).astype(np.float64) ** 2).sum(-1, keepdims=True)
    assert (errors[0] <= errors[1] + allowed).all()
    assert errors[0].sum() < errors[1].sum() or kind == "grid"


@every_width
def test_of_bf16_the_error_of_many_groups_falls(num_bits: int, plain_int: Any) -> None:
    values = np.random.default_rng(5).standard_normal((64, 1024)).astype(np.float32)
    weights = (values.view(np.uint32) >> 16).astype(np.uint16)
    plain = plain_int("BF16", num_bits)
    errors = []
    for kernel in (quantize_signed, quantize_int):
        _, packed, scales = made(kernel, weights, "BF16", num_bits, 32)
        errors.append(error_of(plain.widen(weights), packed, scales, num_bits, plain).sum())
    gain = 10 * np.log10(errors[1] / errors[0])
    assert gain > {4: 1.2, 8: 0.7}[num_bits]


def test_weights_on_a_grid_are_restored_exactly(plain_int: Any) -> None:
    """All of codes -8 to 7 of a scale of either sign, with a code of 7 at least, come back as they were."""
    rng = np.random.default_rng(2)
    codes = rng.integers(-7, 8, (500, 32))
    codes[:250, 3] = -8
    codes[250:, 3] = 7
    scales = np.ldexp(rng.integers(128, 256, (500, 1)) * rng.choice([-1, 1], (500, 1)), -14)
    weights = plain_int("F32", 4).narrow(codes * scales)
    _, packed, found = signed(weights, "F32", 4, 32)
    restored = np.empty_like(weights)
    decode_int(packed, "F32", 4, 32, found, restored)
    np.testing.assert_allclose(restored.view(np.float32), weights.view(np.float32), rtol=1e-6, atol=0)


def test_the_largest_magnitude_lands_on_the_longer_end() -> None:
    weights = np.zeros((2, 32), np.uint16)
    weights[0, 5], weights[1, 5] = 0x3F80, 0xBF80
    _, packed, scales = signed(weights, "BF16", 4, 32)
    restored = np.empty_like(weights)
    decode_int(packed, "BF16", 4, 32, scales, restored)
    assert restored[:, 5].tolist() == [0x3F80, 0xBF80]
    assert [scale >> 15 for scale in scales[:, 0].tolist()] == [1, 0]


@every_dtype
@every_width
def test_groups_of_zeros_have_epsilon_as_scale(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    weights = np.zeros((2, 192), plain.uint)
    weights[1] = 1 << weights.itemsize * 8 - 1
    where, packed, scales = signed(weights, dtype, num_bits, 96)
    expected_packed, expected_scales = plain.quantize(weights, 96)
    assert where == -1
    np.testing.assert_array_equal(scales, expected_scales)
    np.testing.assert_array_equal(packed, expected_packed)


@every_dtype
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, plain_int: Any) -> None:
    plain = plain_int(dtype, 4)
    sign = 1 << np.dtype(plain.uint).itemsize * 8 - 1
    for bad in (plain.infinity, plain.infinity | sign, plain.infinity + 1, sign - 1, 2 * sign - 1):
        for position in (0, 95, 96, 383):
            weights = np.full((4, 96), plain.infinity - 1, plain.uint)
            weights.flat[position:] = bad
            assert signed(weights, dtype, 4, 96)[0] == position
            if dtype == "BF16":
                assert made(quantize_mse, weights, 4, 96)[0] == position


EXPONENTS = [(-150, 126), (-20, -3), (-135, -100), (110, 128), (-3, 3)]


@every_width
@pytest.mark.parametrize(("group_size", "cols"), [(16, 96), (32, 256), (48, 192), (64, 256), (128, 512), (1024, 1024)])
def test_mse_bits_equal_torch(num_bits: int, group_size: int, cols: int) -> None:
    """Matrices of a row, where a search ends early, and of more; of every magnitude."""
    pytest.importorskip("torch")
    for rows, exponents in zip((1, 2, 3, 7, 40), EXPONENTS, strict=True):
        rng = np.random.default_rng(rows)
        values = rng.standard_normal((rows, cols // group_size, group_size))
        values *= np.ldexp(1.0, rng.integers(*exponents, (rows, cols // group_size, 1)))
        bits = np.clip(values, -3e38, 3e38).astype(np.float32).view(np.uint32) >> 16
        weights = np.ascontiguousarray(bits.reshape(rows, cols), np.uint16)
        weights[-1, :group_size] = [0, 0x7F7F, 0x8000, 1][rows % 4]
        same_mse_as_torch(weights, num_bits, group_size)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_mse_bits_equal_torch_for_any_bits(data: st.DataObject) -> None:
    pytest.importorskip("torch")
    rows, group_size = data.draw(st.integers(1, 3)), data.draw(st.sampled_from((16, 32, 96)))
    size = rows * group_size * 2
    weights = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint16).copy()
    weights[weights & 0x7F80 == 0x7F80] ^= 0x7F80
    same_mse_as_torch(weights.reshape(rows, group_size), data.draw(st.sampled_from((4, 8))), group_size)


def same_mse_as_torch(weights: Array, num_bits: int, group_size: int) -> None:
    from schemegen.kernels.torch_int import quantize_int as in_torch

    where, packed, scales = made(quantize_mse, weights, num_bits, group_size)
    words, theirs = np.zeros_like(packed[None]), np.zeros_like(scales[None])
    assert where == -1
    assert in_torch(weights[None], "BF16", num_bits, group_size, words, theirs, searched=True) == -1
    np.testing.assert_array_equal(scales, theirs[0])
    np.testing.assert_array_equal(packed, words[0])


def test_what_has_no_kernel_is_refused() -> None:
    assert not is_signed_fused(4, 4)
    assert not is_signed_fused(3, 32)
    assert not is_mse_fused("BF16", 4, 2048)
    assert not is_mse_fused("F16", 4, 32)
    assert not is_mse_fused(None, 4, 24)
    weights = np.zeros((1, 96), np.uint16)
    with pytest.raises(UnsupportedError, match="no kernel searches the scales of 4 bits in groups of 12"):
        signed(weights, "BF16", 4, 12)
    with pytest.raises(UnsupportedError, match="no kernel searches the scales of 4 bits in groups of 24"):
        made(quantize_mse, weights, 4, 24)
    with pytest.raises(UnsupportedError, match="dtype 'F64' cannot be quantized"):
        signed(weights, "F64", 4, 32)
    with pytest.raises(UnsupportedError, match="group size 64 does not divide the width 96"):
        signed(weights, "BF16", 4, 64)
