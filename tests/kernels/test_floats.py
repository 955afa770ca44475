"""Float dtypes on raw bits."""

from __future__ import annotations

import numpy as np
import pytest

from schemegen.kernels.floats import FLOAT_BITS, first_nonfinite


@pytest.mark.parametrize(("dtype", "kind"), [("F16", np.float16), ("F32", np.float32)])
def test_the_table_is_what_numpy_says(dtype: str, kind: type[np.float16] | type[np.float32]) -> None:
    values = np.array([np.inf, np.finfo(kind).eps, -0.0], kind)
    infinity, epsilon, sign = values.view(np.uint16 if dtype == "F16" else np.uint32).tolist()
    assert FLOAT_BITS[dtype] == (sign - 1, infinity, epsilon)


def test_bf16_is_the_upper_half_of_f32() -> None:
    assert FLOAT_BITS["BF16"].infinity == FLOAT_BITS["F32"].infinity >> 16
    assert FLOAT_BITS["BF16"].magnitude == FLOAT_BITS["F32"].magnitude >> 16
    assert np.array(FLOAT_BITS["BF16"].epsilon << 16, np.uint32).view(np.float32) == 2.0**-7


@pytest.mark.parametrize("dtype", FLOAT_BITS)
@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("place", [0, 7, 11])
def test_the_first_that_is_not_finite_is_found(dtype: str, sign: int, place: int) -> None:
    uint = np.uint32 if dtype == "F32" else np.uint16
    top, infinity = (FLOAT_BITS[dtype].magnitude + 1) * sign, FLOAT_BITS[dtype].infinity
    for bad in (infinity, infinity + 1, FLOAT_BITS[dtype].magnitude):
        bits = np.full((3, 4), top | (infinity - 1), uint)
        assert first_nonfinite(bits, dtype) == -1
        bits.flat[place:] = top | bad
        assert first_nonfinite(bits, dtype) == place
    assert first_nonfinite(np.empty((0, 4), uint), dtype) == -1
