"""Fused CPU kernels of integers whose scales are searched for. `cpu` tells of arrays, shapes and machine code."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from schemegen.errors import UnsupportedError
from schemegen.kernels import native
from schemegen.kernels.arrays import UINTS, check_array, check_dtype, check_groups
from schemegen.kernels.cpu import BLOCK, Bits, Words
from schemegen.kernels.integers import FUSED_BITS
from schemegen.kernels.mse_grid import RATIOS, STEPS, bf16_powers, steps_taken
from schemegen.kernels.signed_grid import LANES

_ARRAYS: Final = [*[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64]
_SIGNED_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *_ARRAYS)
_MSE_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *_ARRAYS, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 2)

#: Weights that an error by `mse` is added up from at a time, and the most that need no sums of sums.
_MSE_LANES: Final = 16
_MSE_MOST: Final = 1024
#: INT8 is hardly ever improved beyond a few steps: they are tried alone first.
_FIRST_STEPS: Final = {4: STEPS, 8: 8}


def is_signed_fused(num_bits: int, group_size: int | None) -> bool:
    """Whether a kernel takes groups of this size for observer `signed_mse`; None is a scale a row."""
    return num_bits in FUSED_BITS and (group_size is None or group_size % LANES == 0)


def quantize_signed(weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits) -> int:
    """Fill packed [rows, cols * num_bits / 32] and scales [rows, cols / group_size] from weights [rows, cols].

    Returns -1, or the flat index of the first NaN or infinite weight, and then what was filled means nothing.
    """
    address = _signed_address(dtype, num_bits, group_size)
    _check_arrays(weights, dtype, num_bits, group_size, packed, scales)
    return int(_SIGNED_KERNEL(address)(*_data(weights, packed, scales), scales.size, group_size))


def warm_up_signed(dtype: str, num_bits: int, group_size: int) -> None:
    """Load or compile `quantize_signed` for these arguments, as a first call would."""
    _signed_address(dtype, num_bits, group_size)


def is_mse_fused(dtype: str | None, num_bits: int, group_size: int | None) -> bool:
    """Whether a kernel takes such groups for observer `mse`. None stands for BF16, and for a scale a row."""
    if dtype not in (None, "BF16") or num_bits not in FUSED_BITS or group_size is None:
        return False
    return group_size % _MSE_LANES == 0 and group_size <= _MSE_MOST


def quantize_mse(weights: Bits, num_bits: int, group_size: int, packed: Words, scales: Bits) -> int:
    """Fill packed and scales of one matrix [rows, cols] of BF16 as `quantize_signed` does; the search is one of all."""
    address, improved = _mse_address(num_bits, group_size), np.zeros(1, np.uint32)
    _check_arrays(weights, "BF16", num_bits, group_size, packed, scales)

    def searched(steps: int) -> int:
        return int(
            _MSE_KERNEL(address)(
                *_data(weights, packed, scales),
                scales.size,
                group_size,
                _ratios().ctypes.data,
                steps,
                _powers().ctypes.data,
                improved.ctypes.data,
            )
        )

    steps = _FIRST_STEPS[num_bits]
    while True:
        index = searched(steps)
        taken = steps_taken(int(improved[0]), steps)
        # Steps beyond the search's end must not count.
        if index >= 0 or (taken is not None and not int(improved[0]) >> taken):
            return index
        steps = taken or STEPS


def warm_up_mse(num_bits: int, group_size: int) -> None:
    """Load or compile `quantize_mse` for these arguments, as a first call would."""
    _mse_address(num_bits, group_size)


@functools.cache
def _ratios() -> npt.NDArray[np.float32]:
    return np.array(RATIOS, np.float32)


@functools.cache
def _powers() -> npt.NDArray[np.float32]:
    return bf16_powers()


def _check_arrays(weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits) -> None:
    rows, cols = weights.shape
    check_groups(cols, group_size)
    check_array("weights", weights, UINTS[dtype], (rows, cols), written=False)
    check_array("packed", packed, np.uint32, (rows, cols * num_bits // 32), written=True)
    check_array("scales", scales, UINTS[dtype], (rows, cols // group_size), written=True)


def _data(*arrays: npt.NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def _signed_address(dtype: str, num_bits: int, group_size: int) -> int:
    check_dtype(dtype)
    if group_size < 1 or not is_signed_fused(num_bits, group_size):
        raise _no_kernel(num_bits, group_size, LANES)
    return native.address("int_search_signed", "quantize", dtype, num_bits, *_blocks(group_size))


def _mse_address(num_bits: int, group_size: int) -> int:
    if group_size < 1 or not is_mse_fused("BF16", num_bits, group_size):
        raise _no_kernel(num_bits, group_size, _MSE_LANES)
    return native.address("int_search_mse", "quantize", num_bits, *_blocks(group_size))


def _blocks(group_size: int) -> tuple[int, int]:
    block = math.gcd(group_size, BLOCK)
    return block, int(block == group_size)


def _no_kernel(num_bits: int, group_size: int, lanes: int) -> UnsupportedError:
    return UnsupportedError(
        f"no kernel searches the scales of {num_bits} bits in groups of {group_size}: "
        f"choose one of {FUSED_BITS} bits and a multiple of {lanes}, or torch"
    )
