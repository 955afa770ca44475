from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels import bits

Array = npt.NDArray[Any]

ALL_16 = np.arange(2**16, dtype=np.uint16)


def over(function: Any) -> Any:
    """Applies a compiled scalar function to every element: (values, out)."""

    @numba.njit(error_model="numpy")
    def apply(values: Array, out: Array) -> None:
        for i in range(values.size):
            out[i] = function(values[i])

    return apply


@pytest.fixture(scope="module")
def singles() -> Array:
    """F32 of every exponent, and both neighbours of every F16 and BF16 and of every midpoint between two of them."""
    rng = np.random.default_rng(0)
    random = rng.integers(0, 2**32, 2**19, dtype=np.uint32)
    halves = ALL_16[np.isfinite(ALL_16.view(np.float16))].view(np.float16).astype(np.float32).view(np.uint32)
    edges = [ALL_16.astype(np.uint32) << 16, halves]
    near = [edge + np.uint32(step) & np.uint32(0xFFFFFFFF) for edge in edges for step in (0, 1, 0x0FFF, 0x1000, 0x1001)]
    middle = [(edges[0] | np.uint32(0x8000)) + np.uint32(step) for step in (0, 1)]
    below = [edge - np.uint32(1) for edge in (*edges, edges[0] | np.uint32(0x8000))]
    # Midpoints of F16 subnormals are no bit patterns with a common tail: all odd multiples of half their last place.
    subnormal = [np.float32(odd * 2.0**-25).view(np.uint32) for odd in range(1, 2**12, 2)]
    return np.concatenate([random, *near, *middle, *below, np.array(subnormal)]).view(np.float32)


def test_every_f16_widens_as_numpy_does() -> None:
    out = np.empty(ALL_16.size, np.float32)
    over(bits.f16_to_f32)(ALL_16, out)
    expected = ALL_16.view(np.float16).astype(np.float32)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(out.view(np.uint32)[number], expected.view(np.uint32)[number])
    assert np.isnan(out[~number]).all()


def test_f32_narrows_to_f16_as_numpy_does(singles: Array) -> None:
    out = np.empty(singles.size, np.uint16)
    over(bits.f32_to_f16)(singles, out)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = singles.astype(np.float16)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(out[number], expected.view(np.uint16)[number])
    assert np.isnan(out.view(np.float16)[~number]).all()


def test_bf16_converts_as_torch_does(singles: Array) -> None:
    torch = pytest.importorskip("torch")
    out = np.empty(singles.size, np.uint16)
    over(bits.f32_to_bf16)(singles, out)
    expected = torch.from_numpy(singles).to(torch.bfloat16)
    number = ~np.isnan(singles)
    np.testing.assert_array_equal(out[number], expected.view(torch.int16).numpy().view(np.uint16)[number])
    wide = np.empty(ALL_16.size, np.float32)
    over(bits.bf16_to_f32)(ALL_16, wide)
    np.testing.assert_array_equal(
        wide, torch.from_numpy(ALL_16.view(np.int16)).view(torch.bfloat16).to(torch.float32).numpy()
    )
    assert np.isnan(((out.astype(np.uint32) << 16).view(np.float32))[~number]).all()


def test_f32_narrows_to_the_nearest_bf16(singles: Array, nearest_bf16: Callable[[Array], Array]) -> None:
    out = np.empty(singles.size, np.uint16)
    over(bits.f32_to_bf16)(singles, out)
    number = ~np.isnan(singles)
    np.testing.assert_array_equal(out[number], nearest_bf16(singles[number]))


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_shortened_quotients_reach_the_integer_that_narrowed_ones_reach(dtype: str, singles: Array) -> None:
    widen, narrow, shorten = bits.FLOATS[dtype].widen, bits.FLOATS[dtype].narrow, bits.FLOATS[dtype].shorten

    @numba.njit(error_model="numpy")
    def apply(values: Array, shortened: Array, narrowed: Array) -> None:
        for i in range(values.size):
            shortened[i] = shorten(values[i])
            narrowed[i] = widen(narrow(values[i]))

    finite = singles[np.isfinite(singles)]
    shortened, narrowed = np.empty_like(finite), np.empty_like(finite)
    apply(finite, shortened, narrowed)
    codes, expected = np.clip(np.rint(shortened), -128, 127), np.clip(np.rint(narrowed), -128, 127)
    np.testing.assert_array_equal(codes, expected)
