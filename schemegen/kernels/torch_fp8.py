"""FP8 E4M3 in eager torch on any device: the bits of `fp8`, and the search of ranges that has no fused kernel.

Every step is one elementwise operation or one maximum, as in `torch_int`: so nothing is fused or reordered. Arrays are
the host's, as `cpu_fp8` describes them. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.floats import FLOAT_BITS
from schemegen.kernels.mx import E4M3_OFFSET
from schemegen.kernels.torch_codes import DTYPES, any_broken, bits_of, divided, first_broken, magnitudes, values
from schemegen.kernels.torch_device import here, on_device, to_host
from schemegen.kernels.torch_mx import mx_scales, mx_values, top_of
from schemegen.kernels.torch_search import search

Bits = npt.NDArray[np.unsignedinteger[Any]]
Block = tuple[int, int]

_LARGEST = 448


@torch.inference_mode()
def quantize_fp8(
    weights: Bits,
    dtype: str,
    block: Block,
    codes: Bits,
    scales: Bits,
    is_mx: bool = False,
    device: str = "cpu",
    searches: bool = False,
) -> int:
    """Fill codes and scales; -1, or the flat index of the first NaN or infinite weight.

    With `searches` ranges are those of least error that `torch_search` finds over each matrix.
    """
    with here(device):
        bits = on_device(weights, device)
        blocks = _blocks(bits, block)
        top = magnitudes(blocks, dtype).amax(-1)
        broken = any_broken(top, dtype)
        if searches:
            top = _searched(blocks, dtype, is_mx)
        found = _scales(top, dtype, is_mx)
        made = _codes(blocks, dtype, _values(found, dtype, is_mx))
        to_host(found, scales)
        to_host(_uncut(made, bits.shape, block), codes)
        return first_broken(weights, dtype, broken)


@torch.inference_mode()
def quantize_fp8_under(weights: Bits, dtype: str, codes: Bits, scales: Bits, device: str = "cpu") -> int:
    """Fill codes under given scales [matrices, 1, 1]; -1, or the flat index of the first NaN or infinite weight."""
    with here(device):
        bits = on_device(weights, device)
        given = _values(on_device(scales, device), dtype, False)
        made = _codes(bits.view(*scales.shape, -1), dtype, given)
        to_host(made.view(bits.shape), codes)
        return first_broken(weights, dtype, any_broken(magnitudes(bits, dtype), dtype))


def _blocks(bits: Any, block: Block) -> Any:
    """[matrices, down, across, weights of a block] of bits [matrices, rows, cols]; edges are filled up with zeros."""
    matrices, rows, cols = bits.shape
    height, width = block
    padded = torch.nn.functional.pad(bits, (0, -cols % width, 0, -rows % height))
    apart = padded.view(matrices, padded.shape[1] // height, height, padded.shape[2] // width, width)
    return apart.transpose(2, 3).flatten(3)


def _uncut(blocks: Any, shape: tuple[int, ...], block: Block) -> Any:
    """[matrices, rows, cols] of blocks."""
    matrices, down, across, _ = blocks.shape
    apart = blocks.view(matrices, down, across, *block).transpose(2, 3)
    return apart.reshape(matrices, down * block[0], across * block[1])[:, : shape[1], : shape[2]]


def _scales(top: Any, dtype: str, is_mx: bool) -> Any:
    """Scales as bits, signed: of the dtype, or E8M0; from magnitudes as bits."""
    if is_mx:
        return mx_scales(top, dtype, E4M3_OFFSET).view(torch.int8)
    scales = bits_of(divided(values(top, dtype), _LARGEST), dtype)
    return scales.masked_fill_(scales == 0, FLOAT_BITS[dtype].epsilon)


def _values(scales: Any, dtype: str, is_mx: bool) -> Any:
    """Stored scales as F32."""
    return mx_values(scales.view(torch.uint8)) if is_mx else values(scales, dtype)


def _codes(blocks: Any, dtype: str, factors: Any) -> Any:
    """Codes as int8: weight / scale rounded to the dtype, clamped, then to E4M3 half to even."""
    quotients = _quotients(blocks.view(DTYPES[dtype]), factors)
    return quotients.to(torch.float8_e4m3fn).view(torch.int8)


def _quotients(weights: Any, factors: Any) -> Any:
    """Of the weights' dtype, within E4M3's range."""
    wide = weights.to(torch.float32, copy=True).div_(factors.unsqueeze(-1))
    return wide.to(weights.dtype).clamp_(-_LARGEST, _LARGEST)


def _searched(blocks: Any, dtype: str, is_mx: bool) -> Any:
    """Magnitudes, as bits, of the ranges that the search finds."""

    def trial(low: Any, high: Any) -> Any:
        found = _scales(top_of(low, high, dtype), dtype, is_mx)
        factors = _values(found, dtype, is_mx)
        rounded = _quotients(weights, factors).to(torch.float8_e4m3fn).to(torch.float32)
        return rounded.mul_(factors.unsqueeze(-1)).to(weights.dtype)

    weights = blocks.view(DTYPES[dtype])
    return top_of(*search(weights, trial), dtype)
