"""What numpy alone computes for the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schemegen.kernels.arrays import scales_of
from schemegen.kernels.grids import BYTES, grid_of


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("num_bits", range(2, 9))
def test_scales_are_those_of_plain_numpy(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    tops = np.concatenate([np.arange(0, plain.infinity, 1 if plain.infinity < 1 << 16 else 65537), [0, 1, 2, 3]])
    bits = tops.astype(plain.uint)
    with np.errstate(under="ignore"):
        expected = plain.scales(bits[:, None], 1)[:, 0]
        np.testing.assert_array_equal(scales_of(plain.widen(bits), dtype, grid_of(num_bits, BYTES).divisor), expected)
