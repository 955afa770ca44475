"""Asymmetric integers of 2 to 8 bits, pack-quantized, in eager torch on any device: the bits of `int_asymmetric`.

Arrays are those of `cpu_asymmetric`; `torch_codes` says why bits depend on no device. Importing this imports torch.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import torch

from schemegen.kernels.floats import FLOAT_BITS
from schemegen.kernels.grids import PACKED, Grid, grid_of
from schemegen.kernels.torch_codes import (
    DTYPES,
    SIGNED,
    any_broken,
    bits_of,
    divided,
    first_broken,
    first_true,
    is_unusable,
    magnitudes,
    rounded,
    values,
)
from schemegen.kernels.torch_device import here, on_device, to_host
from schemegen.kernels.torch_int import Bits, Words
from schemegen.kernels.torch_words import packed_words, unpacked_codes


class _Points(NamedTuple):
    """Scales, as bits, and zero points, as F32: [matrices, rows, groups]."""

    scales: Any
    zeros: Any


@torch.inference_mode()
def quantize_asymmetric(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Words,
    scales: Bits,
    zeros: Words,
    device: str = "cpu",
    searched: bool = False,
) -> int:
    """Fill packed, scales and zeros from weights [matrices, rows, cols]; `searched` as the observer mse does it.

    Returns -1, or the flat index of the first NaN or infinite weight, and then what was filled means nothing.
    """
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        grid = grid_of(num_bits, PACKED)
        points = _points(*(_searched(bits, dtype, grid) if searched else _ranges(bits, dtype)), dtype, grid)
        to_host(points.scales, scales)
        to_host(_packed_down(points.zeros, grid).view(zeros.shape), zeros)
        to_host(packed_words(_codes(bits, dtype, grid, points).view(-1), num_bits).view(packed.shape), packed)
        return first_broken(weights, dtype, any_broken(magnitudes(bits, dtype), dtype))


@torch.inference_mode()
def recode_asymmetric(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Words,
    scales: Bits,
    zeros: Words,
    device: str = "cpu",
) -> int:
    """-1, or the first flat index of a weight whose code under the stored scale and zero point is not the stored one.

    No code is right where the weight or the scale is not finite, or the scale is zero.
    """
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        grid, points = grid_of(num_bits, PACKED), _known(scales, zeros, num_bits, device)
        right = _codes(bits, dtype, grid, points).view(-1)
        wrong = (right != unpacked_codes(on_device(packed, device), num_bits)).view(bits.shape)
        wrong.logical_or_(magnitudes(bits, dtype) >= FLOAT_BITS[dtype].infinity)
        return first_true(wrong.logical_or_(is_unusable(points.scales, dtype).unsqueeze(-1)))


@torch.inference_mode()
def decode_asymmetric(
    packed: Words,
    dtype: str,
    num_bits: int,
    group_size: int,
    scales: Bits,
    zeros: Words,
    weights_out: Bits,
    device: str = "cpu",
) -> None:
    """Fill weights_out with code minus zero point, times scale, as compressed-tensors' decompression gives it."""
    with here(device):
        codes = unpacked_codes(on_device(packed, device), num_bits).view(*scales.shape, group_size)
        points = _known(scales, zeros, num_bits, device)
        restored = _restored(codes, dtype, grid_of(num_bits, PACKED), points)
        to_host(restored.view(SIGNED[dtype]).view(weights_out.shape), weights_out, wait=True)


def _known(scales: Bits, zeros: Words, num_bits: int, device: str) -> _Points:
    """What is stored, as it was before it was stored."""
    grid, rows = grid_of(num_bits, PACKED), scales.shape[1]
    return _Points(on_device(scales, device), _unpacked_down(on_device(zeros, device), rows, grid))


def _ranges(bits: Any, dtype: str) -> tuple[Any, Any]:
    """The lowest and the highest weight of each group, of the dtype."""
    groups = bits.view(DTYPES[dtype])
    return groups.amin(-1), groups.amax(-1)


def _searched(bits: Any, dtype: str, grid: Grid) -> tuple[Any, Any]:
    """The ranges with the least error over each matrix."""
    from schemegen.kernels.torch_search import search

    def trial(low: Any, high: Any) -> Any:
        points = _points(low, high, dtype, grid)
        return _restored(_codes(bits, dtype, grid, points), dtype, grid, points)

    found: tuple[Any, Any] = search(bits.view(DTYPES[dtype]), trial)
    return found


def _points(low: Any, high: Any, dtype: str, grid: Grid) -> _Points:
    """Scales and zero points of ranges of the dtype. Each step is rounded; a range of nothing has the zero point 0."""
    least, most = low.to(torch.float32).clamp(max=0), high.to(torch.float32).clamp(min=0)
    scales = bits_of(divided(rounded(most - least, dtype), grid.high - grid.low), dtype)
    steps = rounded(least.div(values(scales, dtype)), dtype)
    zeros = rounded(grid.low - steps, dtype).nan_to_num_(nan=0, posinf=grid.high).clamp_(grid.low, grid.high).round_()
    return _Points(scales.masked_fill(scales == 0, FLOAT_BITS[dtype].epsilon), zeros)


def _codes(bits: Any, dtype: str, grid: Grid, points: _Points) -> Any:
    """Codes as stored, uint8 [..., size]: weight / scale, rounded, + zero point, rounded, then to an integer."""
    quotients = values(bits, dtype).div(values(points.scales, dtype).unsqueeze(-1))
    moved = rounded(rounded(quotients, dtype).add_(points.zeros.unsqueeze(-1)), dtype)
    return moved.clamp_(grid.low, grid.high).round_().add_(grid.added).to(torch.uint8)


def _restored(codes: Any, dtype: str, grid: Grid, points: _Points) -> Any:
    """Weights of the dtype, of stored codes."""
    numbers = codes.to(torch.float32).sub_(grid.added).sub_(points.zeros.unsqueeze(-1))
    return numbers.mul_(values(points.scales, dtype).unsqueeze(-1)).to(DTYPES[dtype])


def _packed_down(zeros: Any, grid: Grid) -> Any:
    """Words [matrices, ceil(rows * field / 32), groups] of zero points [matrices, rows, groups]; no row, no bits."""
    matrices, rows, groups = zeros.shape
    whole = 32 // gcd(32, grid.field)
    codes = zeros.add(grid.added).to(torch.uint8).transpose(1, 2)
    filled = torch.nn.functional.pad(codes, (0, -rows % whole)).contiguous()
    words = packed_words(filled.view(-1), grid.field).view(matrices, groups, -1)
    return words[..., : -(-rows * grid.field // 32)].transpose(1, 2).contiguous()


def _unpacked_down(words: Any, rows: int, grid: Grid) -> Any:
    """Zero points, F32 [matrices, rows, groups], of words [matrices, …, groups]."""
    matrices, lines, groups = words.shape
    whole = grid.field // gcd(32, grid.field)
    filled = torch.nn.functional.pad(words.transpose(1, 2), (0, -lines % whole)).contiguous()
    codes = unpacked_codes(filled, grid.field).view(matrices, groups, -1)[..., :rows]
    return codes.transpose(1, 2).to(torch.float32).sub_(grid.added).contiguous()
