"""Fused CPU kernels for FP4 E2M1 over raw bits. Each call runs without the interpreter lock and allocates nothing.

Weights are [matrices, rows, cols]: uint16 bits of BF16 or F16, or uint32 bits of F32. Packed are uint8 [matrices, rows,
cols / 2], the first of two codes in the low half; scales are uint8 [matrices, rows, cols / group], E4M3 for NVFP4
(groups of 16) and E8M0 for MXFP4 (groups of 32). `global_scales` [matrices], F32, are NVFP4's. All arrays are
C-contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from schemegen.errors import UnsupportedError
from schemegen.kernels import native
from schemegen.kernels.arrays import UINTS, check_array, check_dtype
from schemegen.kernels.fp4_numbers import SIZES

Bits = npt.NDArray[np.unsignedinteger[Any]]
Bytes = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float32]

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_float)


def quantize_fp4(kind: str, weights: Bits, dtype: str, packed: Bytes, scales: Bytes, global_scales: Floats) -> int:
    """Fill packed and scales; -1, or the flat index of the first NaN or infinite weight."""
    return _run("quantize", kind, weights, dtype, packed, scales, global_scales)


def recode_fp4(kind: str, weights: Bits, dtype: str, packed: Bytes, scales: Bytes, global_scales: Floats) -> int:
    """-1 if every stored code is what its weight rounds to under stored scales, else the first flat index where not.

    No code is right where the weight is not finite, or where a scale is NaN or zero, alone or over the global scale.
    """
    return _run("recode", kind, weights, dtype, packed, scales, global_scales)


def decode_fp4(kind: str, packed: Bytes, dtype: str, scales: Bytes, global_scales: Floats, weights_out: Bits) -> None:
    """Fill weights_out with value times scale, rounded to BF16 and then to the dtype.

    compressed-tensors' decompression gives BF16 whatever the source was.
    """
    _run("decode", kind, weights_out, dtype, packed, scales, global_scales)


def warm_up(kind: str, dtype: str, kernel: str = "quantize") -> None:
    """Load or compile `quantize_fp4`, or another of these, for such arguments, as a first call would."""
    native.address("fp4", kernel, kind, dtype)


def _run(kernel: str, kind: str, weights: Bits, dtype: str, packed: Bytes, scales: Bytes, global_scales: Floats) -> int:
    _check(kernel, kind, weights, dtype, packed, scales, global_scales)
    function = _KERNEL(native.address("fp4", kernel, kind, dtype))
    # One call a global scale.
    for matrix, global_scale in enumerate(global_scales):
        arrays = weights[matrix], packed[matrix], scales[matrix]
        found = int(function(*(array.ctypes.data for array in arrays), scales[matrix].size, global_scale))
        if found >= 0:
            return int(matrix * weights[0].size) + found
    return -1


def _check(
    kernel: str, kind: str, weights: Bits, dtype: str, packed: Bytes, scales: Bytes, global_scales: Floats
) -> None:
    check_dtype(dtype)
    (matrices, rows, cols), size = weights.shape, SIZES[kind]
    if cols % size:
        raise UnsupportedError(f"width {cols} does not hold whole groups of {size}: choose one that does")
    check_array("weights", weights, UINTS[dtype], weights.shape, written=kernel == "decode")
    check_array("packed", packed, np.uint8, (matrices, rows, cols // 2), written=kernel == "quantize")
    check_array("scales", scales, np.uint8, (matrices, rows, cols // size), written=kernel == "quantize")
    check_array("global_scales", global_scales, np.float32, (matrices,), written=False)
