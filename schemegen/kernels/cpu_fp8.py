"""Fused CPU kernels for FP8 E4M3 over raw bits. Each call runs without the interpreter lock and allocates nothing.

Weights are [matrices, rows, cols]: uint16 bits of BF16 or F16, or uint32 bits of F32; codes are uint8 of that shape. A
`block` (height, width) has one scale: scales are [matrices, ceil(rows / height), ceil(cols / width)], bits of the
weights' dtype, or with `is_mx` uint8 of E8M0, and then a block is (1, 32). All arrays are C-contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from schemegen.errors import UnsupportedError
from schemegen.kernels import native
from schemegen.kernels.arrays import UINTS, check_array, check_dtype
from schemegen.kernels.floats import first_nonfinite

Bits = npt.NDArray[np.unsignedinteger[Any]]
Block = tuple[int, int]

MX_BLOCK: Block = (1, 32)
LARGEST = 448
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 5)


def quantize_fp8(weights: Bits, dtype: str, block: Block, codes: Bits, scales: Bits, is_mx: bool = False) -> int:
    """Fill codes and scales; -1, or the flat index of the first NaN or infinite weight."""
    _check(weights, dtype, block, codes, scales, is_mx, encodes=True)
    broken = _run("quantize", (dtype, int(is_mx)), weights, codes, scales, block)
    return -1 if broken < 0 else first_nonfinite(weights, dtype)


def quantize_fp8_under(weights: Bits, dtype: str, codes: Bits, scales: Bits) -> int:
    """Fill codes under given scales [matrices, 1, 1]; -1, or the flat index of the first NaN or infinite weight."""
    _check(weights, dtype, weights.shape[1:], codes, scales, False, encodes=True)
    broken = _run("quantize_under", (dtype,), weights, codes, scales, weights.shape[1:])
    return -1 if broken < 0 else first_nonfinite(weights, dtype)


def recode_fp8(weights: Bits, dtype: str, block: Block, codes: Bits, scales: Bits, is_mx: bool = False) -> int:
    """-1 if every stored code is what its weight rounds to under its stored scale, else the first flat index where not.

    Scales are usable: finite, not zero, not E8M0's NaN. No code is right where the weight is not finite.
    """
    _check(weights, dtype, block, codes, scales, is_mx)
    return _run("recode", (dtype, int(is_mx)), weights, codes, scales, block)


def decode_fp8(codes: Bits, dtype: str, block: Block, scales: Bits, weights_out: Bits, is_mx: bool = False) -> None:
    """Fill weights_out with code times scale, as compressed-tensors' decompression gives it."""
    _check(weights_out, dtype, block, codes, scales, is_mx, decodes=True)
    _run("decode", (dtype, int(is_mx)), weights_out, codes, scales, block)


def warm_up(kernel: str, dtype: str, *options: int) -> None:
    """Load or compile a kernel: `quantize` or `recode` with is_mx, or `quantize_under`."""
    native.address("fp8", kernel, dtype, *options)


def _run(kernel: str, options: tuple[str | int, ...], weights: Bits, codes: Bits, scales: Bits, block: Block) -> int:
    function = _KERNEL(native.address("fp8", kernel, *options))
    return int(function(weights.ctypes.data, codes.ctypes.data, scales.ctypes.data, *weights.shape, *block))


def _check(
    weights: Bits,
    dtype: str,
    block: Block,
    codes: Bits,
    scales: Bits,
    is_mx: bool,
    *,
    encodes: bool = False,
    decodes: bool = False,
) -> None:
    check_dtype(dtype)
    matrices, rows, cols = weights.shape
    if is_mx and (block != MX_BLOCK or cols % MX_BLOCK[1]):
        raise UnsupportedError(f"width {cols} does not hold whole groups of {MX_BLOCK[1]}: choose one that does")
    uint, (height, width) = UINTS[dtype], block
    blocks = (matrices, -(-rows // height), -(-cols // width))
    check_array("weights", weights, uint, weights.shape, written=decodes)
    check_array("codes", codes, np.uint8, weights.shape, written=encodes)
    check_array("scales", scales, np.uint8 if is_mx else uint, blocks, written=encodes)
