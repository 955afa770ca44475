"""Fused CPU kernels of asymmetric integers over raw bits, as `cpu` has them for symmetric ones.

Weights are [matrices, rows, cols], scales [matrices, rows, groups], both of the weights' dtype; codes are packed along
the rows, and zero points down them: words [matrices, ceil(rows * num_bits / 32), groups].
"""

from __future__ import annotations

import ctypes

import numpy as np

from schemegen.kernels import native
from schemegen.kernels.arrays import UINTS, check_array, check_groups
from schemegen.kernels.cpu import Bits, Words, block_of, check_format

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 4)


def quantize_asymmetric(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, zeros: Words
) -> int:
    """Fill packed, scales and zeros; -1, or the flat index of the first NaN or infinite weight."""
    return _run("quantize", weights, dtype, num_bits, group_size, packed, scales, zeros)


def recode_asymmetric(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, zeros: Words
) -> int:
    """-1, or the first flat index of a weight whose code under the stored scale and zero point is not the stored one.

    No code is right where the weight or the scale is not finite, or the scale is zero.
    """
    return _run("recode", weights, dtype, num_bits, group_size, packed, scales, zeros)


def decode_asymmetric(
    packed: Words, dtype: str, num_bits: int, group_size: int, scales: Bits, zeros: Words, weights_out: Bits
) -> None:
    """Fill weights_out with code minus zero point, times scale, as compressed-tensors' decompression gives it."""
    _run("decode", weights_out, dtype, num_bits, group_size, packed, scales, zeros)


def warm_up(dtype: str, num_bits: int, group_size: int, kernel: str = "quantize") -> None:
    """Load or compile `quantize_asymmetric`, or another of these, for such arguments, as a first call would."""
    check_format(dtype, num_bits, group_size)
    _address(kernel, dtype, num_bits, group_size)


def _run(
    kernel: str,
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Words,
    scales: Bits,
    zeros: Words,
) -> int:
    check_format(dtype, num_bits, group_size)
    matrices, rows, cols = weights.shape
    check_groups(cols, group_size)
    uint, groups, made = UINTS[dtype], cols // group_size, kernel == "quantize"
    check_array("weights", weights, uint, (matrices, rows, cols), written=kernel == "decode")
    check_array("packed", packed, np.uint32, (matrices, rows, cols * num_bits // 32), written=made)
    check_array("scales", scales, uint, (matrices, rows, groups), written=made)
    check_array("zeros", zeros, np.uint32, (matrices, -(-rows * num_bits // 32), groups), written=made)
    pointers = (array.ctypes.data for array in (weights, packed, scales, zeros))
    function = _KERNEL(_address(kernel, dtype, num_bits, group_size))
    return int(function(*pointers, matrices * rows, rows, groups, group_size))


def _address(kernel: str, dtype: str, num_bits: int, group_size: int) -> int:
    block = block_of(group_size)
    return native.address("int_asymmetric", kernel, dtype, num_bits, block, int(block == group_size))
