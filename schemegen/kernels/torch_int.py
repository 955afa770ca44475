"""Symmetric integers of 2 to 8 bits, packed or a code a byte, in torch on any device: the bits of `int_symmetric`.

Arrays are the host's, C-contiguous: uint16 bits of BF16 or F16 or uint32 bits of F32, words as uint32, bytes as uint8.
All rows of a call go through the device together; from pinned memory copies run beside other streams' work, and a call
waits for its own. `torch_codes` says why bits depend on no device. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.floats import FLOAT_BITS
from schemegen.kernels.grids import NARROW, PACKED, Grid, grid_of
from schemegen.kernels.torch_codes import (
    DTYPES,
    SIGNED,
    any_broken,
    bits_of,
    codes_of,
    divided,
    first_broken,
    first_true,
    is_unusable,
    magnitudes,
    stored,
    unstored,
    values,
)
from schemegen.kernels.torch_device import here, on_device, to_host
from schemegen.kernels.torch_narrow import exact_scales

Bits = npt.NDArray[np.unsignedinteger[Any]]
Words = npt.NDArray[np.uint32] | npt.NDArray[np.uint8]


@torch.inference_mode()
def quantize_int(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Words,
    scales: Bits,
    device: str = "cpu",
    style: str = PACKED,
    searched: bool = False,
) -> int:
    """Fill packed [rows, cols * num_bits / 32] and scales [rows, cols / group_size] from weights [rows, cols].

    Returns -1, or the flat index of the first NaN or infinite weight, and then what was filled means nothing. All are
    [matrices, rows, …] where ranges are `searched`, as the observer mse does it, over each matrix.
    """
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        words, found, broken = encoded(bits, dtype, num_bits, style, searched)
        to_host(found, scales)
        to_host(words.view(packed.shape), packed)
        return first_broken(weights, dtype, broken)


@torch.inference_mode()
def apply_int(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Words,
    scales: Bits,
    device: str = "cpu",
    style: str = PACKED,
) -> int:
    """Fill packed from weights under the scales given; -1, or the flat index of the first NaN or infinite weight."""
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        grid = grid_of(num_bits, style)
        words = stored(codes_of(bits, dtype, grid, on_device(scales, device)), grid, style)
        to_host(words.view(packed.shape), packed)
        return first_broken(weights, dtype, any_broken(magnitudes(bits, dtype), dtype))


@torch.inference_mode()
def recode_int(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Words,
    scales: Bits,
    device: str = "cpu",
    style: str = PACKED,
) -> int:
    """-1 if every stored code is what its weight rounds to under its stored scale, else the first flat index where not.

    No code is right where the weight or the scale is not finite, or the scale is zero.
    """
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        known, grid = on_device(scales, device), grid_of(num_bits, style)
        wrong = codes_of(bits, dtype, grid, known).view(-1) != unstored(on_device(packed, device), grid, style)
        wrong = wrong.view(bits.shape).logical_or_(magnitudes(bits, dtype) >= FLOAT_BITS[dtype].infinity)
        return first_true(wrong.logical_or_(is_unusable(known, dtype).unsqueeze(-1)))


@torch.inference_mode()
def decode_int(
    packed: Words,
    dtype: str,
    num_bits: int,
    group_size: int,
    scales: Bits,
    weights_out: Bits,
    device: str = "cpu",
    style: str = PACKED,
) -> None:
    """Fill weights_out [rows, cols] with code times scale, as compressed-tensors' decompression gives it."""
    with here(device):
        grid = grid_of(num_bits, style)
        codes = unstored(on_device(packed, device), grid, style).view(*scales.shape, group_size)
        restored = _restored(codes, dtype, grid, on_device(scales, device))
        to_host(restored.view(SIGNED[dtype]).view(weights_out.shape), weights_out, wait=True)


def encoded(bits: Any, dtype: str, num_bits: int, style: str = PACKED, searched: bool = False) -> tuple[Any, Any, Any]:
    """Words, flat, scales [rows, groups], and whether any weight is NaN or infinite, of bits [rows, groups, size].

    All are tensors of one device, bits as signed integers.
    """
    grid = grid_of(num_bits, style)
    if searched:
        from schemegen.kernels.torch_searched import mse_scales

        top = magnitudes(bits, dtype)
        scales = mse_scales(bits.view(DTYPES[dtype]), dtype, num_bits).view(SIGNED[dtype])
    elif style == NARROW:
        top = magnitudes(bits, dtype).amax(-1)
        scales = exact_scales(bits, dtype, num_bits, _scales_of(top, dtype, grid))
    else:
        scales, top = _scales(bits, dtype, num_bits)
    words = stored(codes_of(bits, dtype, grid, scales), grid, style)
    return words, scales, any_broken(top, dtype)


def _scales(bits: Any, dtype: str, num_bits: int) -> tuple[Any, Any]:
    """Scales as bits, [rows, groups], and the largest magnitudes: as bits, which grow with the value, NaN above all."""
    top = magnitudes(bits, dtype).amax(-1)
    return _scales_of(top, dtype, grid_of(num_bits, PACKED)), top


def _scales_of(top: Any, dtype: str, grid: Grid) -> Any:
    """Scales as bits, of the largest magnitudes as bits."""
    scales = bits_of(divided(values(top, dtype), grid.divisor), dtype)
    return scales.masked_fill_(scales == 0, FLOAT_BITS[dtype].epsilon)


def _restored(codes: Any, dtype: str, grid: Grid, scales: Any) -> Any:
    """Weights of the dtype, of codes with `added` [..., size] and scales [...] as bits."""
    numbers = codes.to(torch.float32).sub_(grid.added)
    return numbers.mul_(values(scales, dtype).unsqueeze(-1)).to(DTYPES[dtype])
