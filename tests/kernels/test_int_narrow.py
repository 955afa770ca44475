"""Symmetric integers without the lowest code: what lies on such a grid is found again, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.kernels import cpu

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

FORMATS = [(dtype, num_bits) for dtype in ("BF16", "F16", "F32") for num_bits in (4, 8)]
every_format = pytest.mark.parametrize(("dtype", "num_bits"), FORMATS, ids=str)
EPSILON = {"BF16": 2.0**-7, "F16": 2.0**-10, "F32": 2.0**-23}


def codes_of(plain: Any, weights: Array, scales: Array) -> Array:
    """compressed-tensors' codes, clamped to the narrow range."""
    codes: Array = np.maximum(plain.codes(weights, scales), 1 - 2 ** (plain.num_bits - 1))
    return codes


def plainly(plain: Any, weights: Array, group_size: int) -> tuple[Array, Array]:
    """Words and scales in plain numpy: every candidate of every group, the first that gives all weights back."""
    groups = plain.widen(weights).reshape(weights.shape[0], -1, group_size)
    with np.errstate(all="ignore"):
        first = plain.narrow(np.abs(groups).max(-1) / np.float32(2 ** (plain.num_bits - 1) - 1)).reshape(
            groups.shape[:2]
        )
        first[first == 0] = plain.narrow([EPSILON[plain.dtype]])[0]
        chosen = first.copy()
        for scales in (first + 1, first - 1, first):
            usable = (scales > 0) & (scales < plain.infinity)
            scales = np.where(usable, scales, first).astype(plain.uint)
            codes = codes_of(plain, weights, scales).reshape(groups.shape)
            restored = plain.widen(plain.narrow(codes * plain.widen(scales)[..., None])).reshape(groups.shape)
            chosen = np.where((restored == groups).all(-1), scales, chosen).astype(plain.uint)
        return plain.pack(codes_of(plain, weights, chosen)), chosen


def quantized(kernels: Any, weights: Array, plain: Any, group_size: int) -> tuple[int, Array, Array]:
    rows, cols = weights.shape
    packed = np.full((rows, cols * plain.num_bits // 32), 0xDEADBEEF, np.uint32)
    scales = np.full((rows, cols // group_size), 0xDEAD, weights.dtype)
    given = (weights, plain.dtype, plain.num_bits, group_size, packed, scales)
    return kernels.quantize_int(*given, style="narrow"), packed, scales


def assert_plain(kernels: Any, weights: Array, plain: Any, group_size: int) -> None:
    where, *found = quantized(kernels, weights, plain, group_size)
    assert where == -1
    for ours, expected in zip(found, plainly(plain, weights, group_size), strict=True):
        np.testing.assert_array_equal(ours, expected)


def on_a_grid(plain: Any, rows: int, cols: int, group_size: int, seed: int) -> tuple[Array, Array, Array]:
    """Codes, random scales of any size, and the weights they stand for; the largest of 8 in a row is at the end."""
    rng, top = np.random.default_rng(seed), 2 ** (plain.num_bits - 1) - 1
    codes = rng.integers(-top, top + 1, (rows, cols))
    codes[:, ::group_size] = rng.choice([-top, top], (rows, cols // group_size))
    largest = plain.narrow([np.float32(0.5) * plain.widen(np.array([plain.infinity - 1], plain.uint))[0] / top])[0]
    scales = rng.integers(1, largest, (rows, cols // group_size)).astype(plain.uint)
    products = codes.reshape(*scales.shape, -1).astype(np.float32) * plain.widen(scales)[..., None]
    return codes, scales, plain.narrow(products.reshape(rows, cols))


@pytest.fixture(params=["fused", "torch"])
def kernels(request: pytest.FixtureRequest) -> Any:
    if request.param == "fused":
        return cpu
    pytest.importorskip("torch")
    from schemegen.kernels import torch_int

    return torch_int


@every_format
def test_quantize_equals_plain_numpy(
    dtype: str, num_bits: int, kernels: Any, weight_bits: Weights, plain_int: Any
) -> None:
    for group_size, cols in ((32, 416), (96, 288), (8, 64)):
        weights = weight_bits(dtype, 61, cols, group_size, num_bits)
        assert_plain(kernels, weights, plain_int(dtype, num_bits), group_size)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_both_ways_equal_plain_numpy_for_any_bits(data: st.DataObject, plain_int: Any) -> None:
    plain = plain_int(*data.draw(st.sampled_from(FORMATS)))
    rows = data.draw(st.integers(1, 3))
    size = np.dtype(plain.uint).itemsize * 32 * rows
    weights = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), plain.uint).copy()
    weights[weights & plain.infinity == plain.infinity] ^= plain.infinity
    few = data.draw(st.lists(st.sampled_from(plain.specials()), max_size=4))
    if few:
        weights[: data.draw(st.integers(0, weights.size))] = np.resize(np.array(few, plain.uint), 1)[0]
        weights[: len(few)] = few
    assert_plain(cpu, weights.reshape(rows, 32), plain, 32)
    pytest.importorskip("torch")
    from schemegen.kernels import torch_int

    assert_plain(torch_int, weights.reshape(rows, 32), plain, 32)


@every_format
def test_weights_on_a_grid_come_back_with_codes_and_scales(
    dtype: str, num_bits: int, kernels: Any, plain_int: Any
) -> None:
    plain = plain_int(dtype, num_bits)
    codes, scales, weights = on_a_grid(plain, 200, 256, 32, 1)
    where, packed, found = quantized(kernels, weights, plain, 32)
    assert where == -1
    # A BF16 quotient of more than 64 has steps of a half: compressed-tensors' codes are not always those of before.
    known = (plain.codes(weights, scales) == codes).reshape(200, 8, 32).all(-1)
    assert known.mean() > (0.3 if (dtype, num_bits) == ("BF16", 8) else 0.999)
    np.testing.assert_array_equal(found[known], scales[known])
    np.testing.assert_array_equal(packed.reshape(200, 8, -1)[known], plain.pack(codes).reshape(200, 8, -1)[known])


@pytest.mark.parametrize("num_bits", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_other_widths_come_back_in_torch(dtype: str, num_bits: int, plain_int: Any) -> None:
    pytest.importorskip("torch")
    from schemegen.kernels import torch_int

    plain = plain_int(dtype, num_bits)
    codes, _, weights = on_a_grid(plain, 50, 256, 64, 2)
    assert_plain(torch_int, weights, plain, 64)
    _, packed, _ = quantized(torch_int, weights, plain, 64)
    assert (packed == plain.pack(codes)).mean() > (0.9 if (dtype, num_bits) == ("BF16", 7) else 0.999)


@every_format
def test_scales_stay_numbers_at_the_ends_of_the_dtype(dtype: str, num_bits: int, kernels: Any, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    ends = [*range(1, 300, 7), *range(plain.infinity - 3, plain.infinity)]
    weights = np.zeros((len(ends), 32), plain.uint)
    weights[:, 3], weights[:, 5] = ends, np.array(ends) // 2
    assert_plain(kernels, weights, plain, 32)
    _, _, scales = quantized(kernels, weights, plain, 32)
    assert ((scales > 0) & (scales < plain.infinity)).all()


@every_format
def test_recode_takes_no_code_below_the_range(dtype: str, num_bits: int, kernels: Any, plain_int: Any) -> None:
    plain, low = plain_int(dtype, num_bits), 1 - 2 ** (num_bits - 1)
    weights = np.resize(plain.narrow([low, 1.0, low - 0.75]), (2, 32))
    scales = np.full((2, 1), plain.narrow([1.0])[0], plain.uint)
    right = codes_of(plain, weights, scales)
    assert right.min() == low
    assert kernels.recode_int(weights, dtype, num_bits, 32, plain.pack(right), scales, style="narrow") == -1
    lower = right.copy()
    lower[0, 2] = low - 1
    assert kernels.recode_int(weights, dtype, num_bits, 32, plain.pack(lower), scales, style="narrow") == 2
    for bit in range(num_bits * 64):
        changed = plain.pack(right)
        changed.flat[bit // 32] ^= np.uint32(1 << bit % 32)
        where = kernels.recode_int(weights, dtype, num_bits, 32, changed, scales, style="narrow")
        assert where == bit // num_bits


@every_format
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, num_bits: int, kernels: Any, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    for position in (0, 31, 95, 96, 383):
        weights = np.ones((4, 96), plain.uint)
        weights.flat[position:] = plain.infinity + 1
        assert quantized(kernels, weights, plain, 96)[0] == position
