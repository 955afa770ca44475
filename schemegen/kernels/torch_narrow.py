"""The scale of `int_narrow` in torch, on any device. Importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch

from schemegen.kernels.floats import FLOAT_BITS
from schemegen.kernels.grids import NARROW, Grid, grid_of
from schemegen.kernels.torch_codes import codes_of, rounded, values


def exact_scales(bits: Any, dtype: str, num_bits: int, scales: Any) -> Any:
    """Of scales [...], as bits, and their neighbours the first that gives back all of its group, else the first.

    Groups are bits [..., size]. A neighbour that is zero or infinite is none.
    """
    grid, infinity = grid_of(num_bits, NARROW), FLOAT_BITS[dtype].infinity
    lower, upper = (scales - 1).clamp_(min=1), (scales + 1).clamp_(max=infinity - 1)
    chosen = torch.where(_fits(bits, dtype, grid, upper), upper, scales)
    chosen = torch.where(_fits(bits, dtype, grid, lower), lower, chosen)
    return torch.where(_fits(bits, dtype, grid, scales), scales, chosen)


def _fits(bits: Any, dtype: str, grid: Grid, scales: Any) -> Any:
    """Where code times scale is the weight, for all of a group; zeros are equal whatever their sign."""
    restored = codes_of(bits, dtype, grid, scales).to(torch.float32).sub_(grid.added)
    restored.mul_(values(scales, dtype).unsqueeze(-1))
    return (rounded(restored, dtype) == values(bits, dtype)).all(-1)
