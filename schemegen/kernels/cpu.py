"""Fused CPU kernels over raw bits. Each call runs without the interpreter lock, on one thread, and allocates nothing.

Weights, and the scales, which have their dtype, are uint16 bits of BF16 or F16, or uint32 bits of F32. All arrays are
C-contiguous. `group_size` divides `cols` and fills whole 32-bit words; a scale a row is a group size of `cols`.
`style` is one of `grids`: `packed` is words, and of a code a byte it is uint8 [rows, cols].
The first call for a combination loads its machine code, or compiles it (about 2 s) if this computer never has.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np
import numpy.typing as npt

from schemegen.errors import UnsupportedError
from schemegen.kernels import native
from schemegen.kernels.arrays import UINTS, check_array, check_dtype, check_groups
from schemegen.kernels.grids import BYTES, NARROW, PACKED, grid_of
from schemegen.kernels.integers import fused_bits

Bits = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint32] | npt.NDArray[np.uint8]

# What a kernel works through as straight-line code: the largest of 32, 16, 8, 4 weights that divides the group.
BLOCK = 32

_INT_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)


def quantize_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, style: str = PACKED
) -> int:
    """Fill packed [rows, cols * num_bits / 32] and scales [rows, cols / group_size] from weights [rows, cols].

    Returns -1, or the flat index of the first NaN or infinite weight, and then what was filled means nothing.
    """
    return _run("quantize", weights, dtype, num_bits, group_size, packed, scales, style)


def apply_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, style: str = PACKED
) -> int:
    """Fill packed from weights under the scales given; -1, or the flat index of the first NaN or infinite weight."""
    return _run("apply", weights, dtype, num_bits, group_size, packed, scales, style)


def recode_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, style: str = PACKED
) -> int:
    """-1 if every stored code is what its weight rounds to under its stored scale, else the first flat index where not.

    No code is right where the weight or the scale is not finite, or the scale is zero.
    """
    return _run("recode", weights, dtype, num_bits, group_size, packed, scales, style)


def decode_int(
    packed: Words, dtype: str, num_bits: int, group_size: int, scales: Bits, weights_out: Bits, style: str = PACKED
) -> None:
    """Fill weights_out [rows, cols] with code times scale, as compressed-tensors' decompression gives it."""
    _run("decode", weights_out, dtype, num_bits, group_size, packed, scales, style)


def warm_up(dtype: str, num_bits: int, group_size: int, style: str = PACKED, kernel: str = "quantize") -> None:
    """Load or compile `quantize_int`, or another of these, for such arguments, as a first call would."""
    check_format(dtype, num_bits, group_size, style)
    _address(kernel, dtype, num_bits, group_size, style)


def _run(
    kernel: str, weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, style: str
) -> int:
    check_format(dtype, num_bits, group_size, style)
    rows, cols = weights.shape
    check_groups(cols, group_size)
    uint, makes_codes = UINTS[dtype], kernel in ("quantize", "apply")
    check_array("weights", weights, uint, (rows, cols), written=kernel == "decode")
    code = np.uint8 if style == BYTES else np.uint32
    width = cols if style == BYTES else cols * num_bits // 32
    check_array("packed", packed, code, (rows, width), written=makes_codes)
    check_array("scales", scales, uint, (rows, cols // group_size), written=kernel == "quantize")
    function = _INT_KERNEL(_address(kernel, dtype, num_bits, group_size, style))
    return int(function(weights.ctypes.data, packed.ctypes.data, scales.ctypes.data, scales.size, group_size))


def _address(kernel: str, dtype: str, num_bits: int, group_size: int, style: str) -> int:
    block = block_of(group_size)
    options = (kernel, dtype, num_bits, block, int(block == group_size))
    if style == NARROW and kernel == "quantize":
        return native.address("int_narrow", *options)
    # Decoding knows no narrow range: the same code serves.
    same = style == PACKED or (style == NARROW and kernel == "decode")
    return native.address("int_symmetric", *options, *(() if same else (style,)))


def block_of(group_size: int) -> int:
    """How many weights of such groups are straight-line code."""
    return math.gcd(group_size, BLOCK)


def check_format(dtype: str, num_bits: int, group_size: int, style: str = PACKED) -> None:
    """UnsupportedError where there is no kernel."""
    check_dtype(dtype)
    known = fused_bits(style)
    if num_bits not in known:
        raise UnsupportedError(f"{num_bits} bits have no kernel for integers: choose one of {(*known,)}")
    field = grid_of(num_bits, style).field
    if group_size < 1 or group_size * field % 32:
        raise UnsupportedError(
            f"group size {group_size} does not fill 32-bit words: choose a multiple of {32 // field}"
        )
