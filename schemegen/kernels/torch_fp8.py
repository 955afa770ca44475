"""FP8 E4M3 in eager torch on any device: the bits of `fp8`, and the search of ranges that has no fused kernel.

Every step is one elementwise operation or one maximum, as in `torch_int`: so nothing is fused or reordered. Arrays are
the host's, as `cpu_fp8` describes them. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.floats import FLOAT_BITS, first_nonfinite
from schemegen.kernels.torch_device import here, on_device, to_host
from schemegen.kernels.torch_search import search

Bits = npt.NDArray[np.unsignedinteger[Any]]
Cell = tuple[int, int]

_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
_SIGNED = {"BF16": torch.int16, "F16": torch.int16, "F32": torch.int32}
_LARGEST = 448
_OFFSET = 8


@torch.inference_mode()
def quantize_fp8(
    weights: Bits,
    dtype: str,
    cell: Cell,
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
        cells = _cells(bits, cell)
        top = _magnitudes(cells, dtype).amax(-1)
        broken = (top >= FLOAT_BITS[dtype].infinity).any()
        if searches:
            top = _searched(cells, dtype, is_mx)
        found = _exponents(top, dtype) if is_mx else _scales(top, dtype)
        made = _codes(cells, dtype, _values(found, dtype, is_mx))
        to_host(found, scales)
        to_host(_uncut(made, bits.shape, cell), codes)
        # Reading a value waits for the stream, and so for the copies before it.
        return first_nonfinite(weights, dtype) if bool(broken.item()) else -1


@torch.inference_mode()
def quantize_fp8_under(weights: Bits, dtype: str, codes: Bits, scales: Bits, device: str = "cpu") -> int:
    """Fill codes under given scales [matrices, 1, 1]; -1, or the flat index of the first NaN or infinite weight."""
    with here(device):
        bits = on_device(weights, device)
        given = _values(on_device(scales, device), dtype, False)
        made = _codes(bits.view(*scales.shape, -1), dtype, given)
        to_host(made.view(bits.shape), codes)
        broken = (_magnitudes(bits, dtype) >= FLOAT_BITS[dtype].infinity).any()
        return first_nonfinite(weights, dtype) if bool(broken.item()) else -1


def _cells(bits: Any, cell: Cell) -> Any:
    """[matrices, down, across, weights of a cell] of bits [matrices, rows, cols]; edges are filled up with zeros."""
    matrices, rows, cols = bits.shape
    height, width = cell
    padded = torch.nn.functional.pad(bits, (0, -cols % width, 0, -rows % height))
    apart = padded.view(matrices, padded.shape[1] // height, height, padded.shape[2] // width, width)
    return apart.transpose(2, 3).flatten(3)


def _uncut(cells: Any, shape: tuple[int, ...], cell: Cell) -> Any:
    """[matrices, rows, cols] of cells."""
    matrices, down, across, _ = cells.shape
    apart = cells.view(matrices, down, across, *cell).transpose(2, 3)
    return apart.reshape(matrices, down * cell[0], across * cell[1])[:, : shape[1], : shape[2]]


def _scales(top: Any, dtype: str) -> Any:
    """Scales as bits of the dtype, from magnitudes as bits."""
    largest = torch.full((1,), _LARGEST, dtype=torch.float32, device=top.device)
    scales = top.view(_DTYPES[dtype]).to(torch.float32).div_(largest).to(_DTYPES[dtype]).view(_SIGNED[dtype])
    return scales.masked_fill_(scales == 0, FLOAT_BITS[dtype].epsilon)


def _exponents(top: Any, dtype: str) -> Any:
    """E8M0 scales as int8, from magnitudes as bits; the rule is `small_floats.mx_exponent`'s."""
    infinity = FLOAT_BITS[dtype].infinity
    mantissa = (infinity & -infinity).bit_length() - 1
    bias = (infinity >> mantissa) // 2
    fields = (top.to(torch.int32) + (1 << mantissa - 2)) >> mantissa
    stored = (fields + (127 - bias - _OFFSET)).clamp_(min=0)
    return torch.where(fields == 0, 0 if bias == 127 else 127, stored).to(torch.uint8).view(torch.int8)


def _values(scales: Any, dtype: str, is_mx: bool) -> Any:
    """Stored scales as F32."""
    if not is_mx:
        return scales.view(_DTYPES[dtype]).to(torch.float32)
    exponents = scales.view(torch.uint8).to(torch.int32)
    return torch.where(exponents == 0, 1 << 22, exponents << 23).to(torch.int32).view(torch.float32)


def _codes(cells: Any, dtype: str, values: Any) -> Any:
    """Codes as int8: weight / scale rounded to the dtype, clamped, then to E4M3 half to even."""
    quotients = _quotients(cells.view(_DTYPES[dtype]), values)
    return quotients.to(torch.float8_e4m3fn).view(torch.int8)


def _quotients(weights: Any, values: Any) -> Any:
    """Of the weights' dtype, within E4M3's range."""
    wide = weights.to(torch.float32, copy=True).div_(values.unsqueeze(-1))
    return wide.to(weights.dtype).clamp_(-_LARGEST, _LARGEST)


def _magnitudes(bits: Any, dtype: str) -> Any:
    return bits.bitwise_and(FLOAT_BITS[dtype].magnitude)


def _searched(cells: Any, dtype: str, is_mx: bool) -> Any:
    """Magnitudes, as bits, of the ranges that the search finds."""

    def trial(low: Any, high: Any) -> Any:
        found = _exponents(_top(low, high), dtype) if is_mx else _scales(_top(low, high), dtype)
        values = _values(found, dtype, is_mx)
        rounded = _quotients(weights, values).to(torch.float8_e4m3fn).to(torch.float32)
        return rounded.mul_(values.unsqueeze(-1)).to(weights.dtype)

    weights = cells.view(_DTYPES[dtype])
    return _top(*search(weights, trial))


def _top(low: Any, high: Any) -> Any:
    """The larger magnitude of a range's ends, as bits; a range holds zero."""
    # The last step makes 0 of -0, which any of the others may give.
    top = torch.maximum(low.clamp(max=0).neg_(), high.clamp(min=0)).abs_()
    return top.view(torch.int32 if top.dtype == torch.float32 else torch.int16)
