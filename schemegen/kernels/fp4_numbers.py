"""What FP4 formats are made of, for fused kernels and torch alike. Nothing heavy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemegen.kernels.floats import SMALLEST_NORMAL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

NVFP4: Final = "nvfp4"
MXFP4: Final = "mxfp4"
#: Weights of a group.
SIZES: Final = {NVFP4: 16, MXFP4: 32}

#: MXFP4's quotients are of the weights' dtype, in which a magnitude up to this, half its smallest, is zero.
MX_LEAST: Final = {"BF16": 2.0**-134, "F16": 2.0**-25, "F32": 0.0}

# The largest E4M3 times the largest E2M1.
_FULL_RANGE: Final = 448.0 * 6.0


def global_scales(largest: Floats, dtype: str) -> Floats:
    """NVFP4's global scales of layers by their largest magnitudes, which are values of the dtype.

    2688 times the reciprocal, each rounded to the dtype, and 1 where that is infinite: compressed-tensors'
    generate_gparam on weights of the dtype, where torch turns a number over a tensor into a product.
    """
    import numpy as np

    with np.errstate(over="ignore", under="ignore"):
        normal: Floats = np.maximum(largest, np.float32(SMALLEST_NORMAL[dtype]))
        reciprocals = _rounded(np.divide(np.float32(1), normal, dtype=np.float32), dtype)
        found = _rounded(reciprocals * np.float32(_FULL_RANGE), dtype)
    return np.where(np.isinf(found), np.float32(1), found)


def _rounded(values: Floats, dtype: str) -> Floats:
    """The nearest values of the dtype, half to even."""
    from schemegen.kernels.arrays import narrowed, widened

    return widened(narrowed(values, dtype), dtype)
