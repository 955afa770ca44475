"""The search of observer `mse`, which `mse_grid` tells of, over whole matrices and for every family of formats.

It is llm-compressor's eager `_grid_search_mse` to the bit. Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from schemegen.kernels.mse_grid import PATIENCE, POWER, RATIOS
from schemegen.kernels.torch_sums import row_sums

Trial = Callable[[Any, Any], Any]


def search(groups: Any, trial: Trial) -> tuple[Any, Any]:
    """Lowest and highest values [matrices, *scale_shape] that quantize `groups` [matrices, *scale_shape, size] best.

    `trial(low, high)` gives `groups`, in their dtype, as they come back from the scales of these ranges.
    """
    low, high = groups.amin(-1), groups.amax(-1)
    best_low, best_high = low, high
    least = torch.full_like(low, torch.finfo(low.dtype).max)
    stale = torch.zeros((len(groups), *[1] * (low.ndim - 1)), dtype=torch.int64, device=groups.device)
    for ratio in RATIOS:
        tried_low, tried_high = low * ratio, high * ratio
        errors = row_sums(_powers((trial(tried_low, tried_high) - groups).abs_()))
        better = (errors < least).logical_and_(stale < PATIENCE)
        least = torch.where(better, errors, least)
        best_low = torch.where(better, tried_low, best_low)
        best_high = torch.where(better, tried_high, best_high)
        # A matrix that is done is not begun again: nothing of it is `better`.
        stale = torch.where(better.flatten(1).any(1).view_as(stale), 0, stale + 1)
        if int(stale.min().item()) >= PATIENCE:
            break
    return best_low, best_high


def _powers(values: Any) -> Any:
    """Values to the power of 2.4 as torch's CPU rounds them; 2.4 is rounded to the values' dtype first.

    No power of a BF16 comes near enough to the middle of two for a device's own `pow` to matter; of the others some do.
    """
    if values.device.type == "cpu" or values.dtype == torch.bfloat16:
        return values.pow_(POWER)
    if values.dtype == torch.float16:
        power = float(torch.tensor(POWER, dtype=torch.float16))
        return values.double().pow_(power).float().half()
    return values.cpu().pow_(POWER).to(values.device)
