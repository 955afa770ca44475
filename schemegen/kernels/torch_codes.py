"""Steps that the integer formats in torch share: values of bits, codes, scales. Importing this imports torch.

Every step is one elementwise operation or one maximum, so nothing is fused or reordered: an F32 division is correctly
rounded and keeps subnormals on a CPU and, as torch compiles its kernels, on CUDA; conversions round half to even. What
divides is always a tensor on the device: by a Python number CUDA would multiply with the reciprocal.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.floats import FLOAT_BITS, first_nonfinite
from schemegen.kernels.grids import BYTES, Grid
from schemegen.kernels.torch_words import packed_words, unpacked_codes

DTYPES: Final = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
SIGNED: Final = {"BF16": torch.int16, "F16": torch.int16, "F32": torch.int32}


def values(bits: Any, dtype: str) -> Any:
    """F32 of bits."""
    return bits.view(DTYPES[dtype]).to(torch.float32)


def magnitudes(bits: Any, dtype: str) -> Any:
    """Bits without the sign: they grow with the magnitude, NaN above all."""
    return bits.bitwise_and(FLOAT_BITS[dtype].magnitude)


def rounded(numbers: Any, dtype: str) -> Any:
    """F32 rounded to the dtype, as F32."""
    return numbers.to(DTYPES[dtype]).to(torch.float32)


def bits_of(numbers: Any, dtype: str) -> Any:
    """Bits, as signed integers, of F32 rounded to the dtype."""
    return numbers.to(DTYPES[dtype]).view(SIGNED[dtype])


def divided(numbers: Any, by: float) -> Any:
    """F32 over a number, which is taken to the device first."""
    return numbers.div(torch.full((1,), by, dtype=torch.float32, device=numbers.device))


def is_unusable(scales: Any, dtype: str) -> Any:
    """Where scales, as bits, are NaN, infinite or zero."""
    sizes = magnitudes(scales, dtype)
    return (sizes == 0) | (sizes >= FLOAT_BITS[dtype].infinity)


def codes_of(bits: Any, dtype: str, grid: Grid, scales: Any) -> Any:
    """Codes with the grid's `added`, uint8 [..., size], of bits [..., size] under scales [...].

    Weight / scale rounded to the dtype, then to an integer half to even, and clamped. The quotient alone needs F32:
    what follows is exact in any dtype, since all of it are integers of 8 bits. A NaN becomes any code: callers refuse
    what led to it.
    """
    quotients = bits.view(DTYPES[dtype]).to(torch.float32, copy=True)
    quotients = quotients.div_(values(scales, dtype).unsqueeze(-1)).to(DTYPES[dtype])
    return quotients.clamp_(grid.low, grid.high).round_().add_(grid.added).to(torch.uint8)


def stored(codes: Any, grid: Grid, style: str) -> Any:
    """Words, flat int32, or bytes, flat int8, of codes with `added`; what `codes` held is lost."""
    if style == BYTES:
        return codes.bitwise_xor_(grid.flip).view(torch.int8).view(-1)
    return packed_words(codes.view(-1), grid.field)


def unstored(items: Any, grid: Grid, style: str) -> Any:
    """Codes with `added`, flat uint8, of words or bytes."""
    if style == BYTES:
        return items.reshape(-1).view(torch.uint8).bitwise_xor(grid.flip)
    return unpacked_codes(items, grid.field)


def first_true(found: Any) -> int:
    """The flat index of the first true item, or -1."""
    flat = found.view(-1)
    return int(flat.to(torch.uint8).argmax().item()) if bool(flat.any().item()) else -1


def any_broken(sizes: Any, dtype: str) -> Any:
    """Whether one of the magnitudes, as bits, is NaN or infinite: one item, still on the device."""
    return (sizes >= FLOAT_BITS[dtype].infinity).any()


def first_broken(weights: npt.NDArray[np.unsignedinteger[Any]], dtype: str, broken: Any) -> int:
    """The flat index of the first NaN or infinite weight, looked for on the host where `broken` says so; else -1.

    Reading `broken` waits for the stream, and so for the copies that were begun before.
    """
    return first_nonfinite(weights, dtype) if bool(broken.item()) else -1
