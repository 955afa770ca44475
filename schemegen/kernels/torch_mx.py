"""Scales of MX groups in eager torch on any device, and magnitudes of searched ranges. Importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch

from schemegen.kernels.floats import FLOAT_BITS
from schemegen.kernels.torch_codes import SIGNED

_BIAS = 127


def mx_scales(top: Any, dtype: str, offset: int) -> Any:
    """E8M0 scales, uint8, of magnitudes as bits, for codes that reach 2**offset: `small_floats.mx_exponent`'s rule."""
    infinity = FLOAT_BITS[dtype].infinity
    mantissa = (infinity & -infinity).bit_length() - 1
    bias = (infinity >> mantissa) // 2
    fields = (top.to(torch.int32) + (1 << mantissa - 2)) >> mantissa
    stored = (fields + (_BIAS - bias - offset)).clamp_(min=0)
    return stored.masked_fill_(fields == 0, 0 if bias == _BIAS else _BIAS).to(torch.uint8)


def mx_values(stored: Any) -> Any:
    """F32 of E8M0, uint8: a subnormal one for 0."""
    exponents = stored.to(torch.int32)
    return (exponents << 23).masked_fill_(exponents == 0, 1 << 22).view(torch.float32)


def top_of(low: Any, high: Any, dtype: str) -> Any:
    """The larger magnitude of a range's ends, as bits; a range holds zero."""
    # The last step makes 0 of -0, which any of the others may give.
    return torch.maximum(low.clamp(max=0).neg_(), high.clamp(min=0)).abs_().view(SIGNED[dtype])
