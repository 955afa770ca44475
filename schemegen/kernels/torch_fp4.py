"""FP4 E2M1 in eager torch on any device: the bits of `fp4`, and for MXFP4 the search of ranges, which nothing fuses.

Every step is one elementwise operation or one maximum, as in `torch_int`: so nothing is fused or reordered. Arrays are
the host's, as `cpu_fp4` describes them. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.fp4_numbers import MX_LEAST, NVFP4, SIZES
from schemegen.kernels.mx import E2M1_OFFSET
from schemegen.kernels.torch_codes import DTYPES, any_broken, divided, first_broken, magnitudes, rounded, values
from schemegen.kernels.torch_device import here, on_device, to_host
from schemegen.kernels.torch_mx import mx_scales, mx_values, top_of
from schemegen.kernels.torch_search import search
from schemegen.kernels.torch_words import packed_words

Bits = npt.NDArray[np.unsignedinteger[Any]]
Bytes = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float32]

# As in `fp4`: where halves are counted, half of a code's last place, and the bits of 1.0 less its index.
_HALVES, _HALVES_BITS = 1.5 * 2**22, 0x4AC00000
_BELOW_HALF, _ORIGIN = 0x1FFFFF, (0x3F800000 >> 22) - 2


@torch.inference_mode()
def quantize_fp4(
    kind: str,
    weights: Bits,
    dtype: str,
    packed: Bytes,
    scales: Bytes,
    global_scales: Floats,
    device: str = "cpu",
    searches: bool = False,
) -> int:
    """Fill packed and scales; -1, or the flat index of the first NaN or infinite weight.

    With `searches`, for MXFP4, ranges are those of least error that `torch_search` finds over each matrix.
    """
    with here(device):
        groups = on_device(weights, device).unflatten(-1, (-1, SIZES[kind]))
        top = magnitudes(groups, dtype).amax(-1)
        broken = any_broken(top, dtype)
        if searches:
            top = _searched(groups.view(DTYPES[dtype]), dtype)
        if kind == NVFP4:
            global_scale = on_device(global_scales.view(np.uint32), device).view(torch.float32).view(-1, 1, 1)
            found = _nv_scales(top, dtype, global_scale)
            divisors, least = _e4m3_values(found).div_(global_scale), 0.0
        else:
            found = mx_scales(top, dtype, E2M1_OFFSET)
            divisors, least = mx_values(found), MX_LEAST[dtype]
        codes = _codes(_quotients(groups.view(DTYPES[dtype]), divisors), least)
        to_host(found.view(torch.int8), scales)
        to_host(packed_words(codes.view(-1), 4).view(torch.int8).view(packed.shape), packed)
        return first_broken(weights, dtype, broken)


def _quotients(groups: Any, divisors: Any) -> Any:
    """F32, of weights over a divisor a group."""
    return groups.to(torch.float32, copy=True).div_(divisors.unsqueeze(-1))


def _codes(quotients: Any, least: float) -> Any:
    """uint8 codes; a NaN becomes any code: callers refuse what led to it."""
    sizes = quotients.abs().clamp_(max=6)
    raw = sizes.view(torch.int32)
    nearest = (raw >> 22).bitwise_and_(1).add_(raw).add_(_BELOW_HALF).bitwise_right_shift_(22).sub_(_ORIGIN)
    halves = (sizes + _HALVES).view(torch.int32).sub_(_HALVES_BITS)
    index = torch.where(sizes < 1, halves, nearest).to(torch.uint8)
    return index.bitwise_or_((quotients < -least).to(torch.uint8).bitwise_left_shift_(3))


def _nv_scales(top: Any, dtype: str, global_scale: Any) -> Any:
    """E4M3 scales as uint8, of magnitudes as bits [matrices, rows, groups] and global scales [matrices, 1, 1]."""
    stored = (
        (rounded(divided(values(top, dtype), 6), dtype) * global_scale)
        .clamp_(max=448)
        .to(torch.float8_e4m3fn)
        .view(torch.uint8)
    )
    return stored.masked_fill(stored == 0, 0x20)


def _e4m3_values(stored: Any) -> Any:
    return stored.view(torch.float8_e4m3fn).to(torch.float32)


def _searched(groups: Any, dtype: str) -> Any:
    """Magnitudes, as bits, of the ranges that the search finds for MXFP4."""

    def trial(low: Any, high: Any) -> Any:
        scales = mx_values(mx_scales(top_of(low, high, dtype), dtype, E2M1_OFFSET))
        index = _codes(_quotients(groups, scales), 0.0).to(torch.int64)
        return numbers[index].mul_(scales.unsqueeze(-1)).to(groups.dtype)

    sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    numbers = torch.tensor([*sizes, *(-size for size in sizes)], dtype=torch.float32, device=groups.device)
    return top_of(*search(groups, trial), dtype)
