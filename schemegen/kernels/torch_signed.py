"""Scales that may be negative, observer `signed_mse`, in eager torch on any device: the bits of `int_search_signed`.

Every step is one elementwise operation or one extreme, so nothing is fused or reordered. Importing this imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.floats import first_nonfinite
from schemegen.kernels.grids import PACKED, grid_of
from schemegen.kernels.signed_grid import LANES, OTHERS, least_top, places_of
from schemegen.kernels.torch_codes import DTYPES, bits_of, codes_of, divided, stored
from schemegen.kernels.torch_device import here, on_device, to_host

Bits = npt.NDArray[np.unsignedinteger[Any]]


@torch.inference_mode()
def quantize_signed(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Bits, scales: Bits, device: str = "cpu"
) -> int:
    """Fill packed [rows, cols * num_bits / 32] and scales [rows, cols / group_size] from weights [rows, cols].

    Returns -1, or the flat index of the first NaN or infinite weight, and then what was filled means nothing.
    """
    with here(device):
        bits = on_device(weights, device).view(-1, group_size)
        groups = bits.view(DTYPES[dtype])
        if not bool(groups.isfinite().all().item()):
            return first_nonfinite(weights, dtype)
        found = signed_scales(groups, dtype, num_bits)
        grid = grid_of(num_bits, PACKED)
        words = stored(codes_of(bits, dtype, grid, found), grid, PACKED)
        to_host(found.view(scales.shape), scales)
        to_host(words.view(packed.shape), packed, wait=True)
        return -1


def signed_scales(groups: Any, dtype: str, num_bits: int) -> Any:
    """Scales [groups], as bits, of finite weights [groups, size]."""
    high, low = groups.amax(-1).float().clamp_min_(0), groups.amin(-1).float().neg_().clamp_min_(0)
    # A zero may be negative.
    top, sign = torch.maximum(high, low).abs_(), torch.where(high > low, -1.0, 1.0)
    is_searched = top >= least_top(dtype, num_bits)
    unit = (sign / top).where(is_searched, 1.0)
    # The weights of a group down a column: every sum goes over contiguous memory.
    best, chosen = torch.full_like(top, -1), torch.zeros_like(top)
    for gain, scale in _tried(groups.t().contiguous().float(), unit, num_bits):
        better = gain > best
        best, chosen = gain.where(better, best), scale.where(better, chosen)
    plain = bits_of(divided(top, grid_of(num_bits, PACKED).divisor), dtype)
    plain = torch.where(plain == 0, bits_of(torch.full_like(top, torch.finfo(groups.dtype).eps), dtype), plain)
    return bits_of((sign * top).mul_(chosen), dtype).where(is_searched, plain)


def _tried(weights: Any, unit: Any, num_bits: int) -> Iterator[tuple[Any, Any]]:
    """What every place takes off the error, in units of the largest magnitude squared, and its scale in units of it."""
    places, length = places_of(num_bits), 2 ** (num_bits - 1)
    ends = {1: (-length, length - 1), -1: (1 - length, length)}
    for sign, place in [*((1, place) for place in places), *((-1, places[other]) for other in OTHERS)]:
        scaled = weights * (unit * place)
        codes = scaled.round().clamp_(*ends[sign])
        product = _sum(scaled.mul_(codes)) * (1 / place)
        scale = product / _sum(codes.mul_(codes))
        yield product * scale, scale * sign


def _sum(terms: Any) -> Any:
    """Sums over the first dimension, by lanes and then by halves of them; overwrites `terms`."""
    lanes = gcd(len(terms), LANES)
    total = terms[:lanes]
    for first in range(lanes, len(terms), lanes):
        total.add_(terms[first : first + lanes])
    while lanes > 1:
        lanes //= 2
        total = total[:lanes] + total[lanes:]
    return total[0]
