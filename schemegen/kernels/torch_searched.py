"""Scales of symmetric integers by observer `mse`, in eager torch on any device. Importing this module imports torch."""

from __future__ import annotations

from typing import Any

import torch

from schemegen.kernels.torch_search import search


def mse_scales(groups: Any, dtype: str, num_bits: int) -> Any:
    """Scales [matrices, *scale_shape] of finite weights [matrices, *scale_shape, size], in their dtype.

    They are what compressed-tensors makes of the ranges that the search finds.
    """
    low, high = -(2 ** (num_bits - 1)), 2 ** (num_bits - 1) - 1
    half_range = torch.full((1,), (2**num_bits - 1) / 2, dtype=groups.dtype, device=groups.device)

    def scales_of(lowest: Any, highest: Any) -> Any:
        scales = torch.maximum(lowest.abs(), highest.abs()).div_(half_range)
        return scales.masked_fill_(scales == 0, torch.finfo(groups.dtype).eps)

    def trial(lowest: Any, highest: Any) -> Any:
        scales = scales_of(lowest, highest).unsqueeze(-1)
        return groups.div(scales).clamp_(low, high).round_().mul_(scales)

    return scales_of(*search(groups, trial))
