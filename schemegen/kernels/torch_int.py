"""Symmetric integers of 2 to 8 bits, pack-quantized, in eager torch on any device: the bits of `int_symmetric`.

Every step is one elementwise operation or one maximum, so nothing is fused or reordered: an F32 division is correctly
rounded and keeps subnormals on a CPU and, as torch compiles its kernels, on CUDA; conversions round half to even. What
divides is always a tensor on the device: by a Python number CUDA would multiply with the reciprocal.

Arrays are the host's, C-contiguous: uint16 bits of BF16 or F16 or uint32 bits of F32, words as uint32. All rows
of a call go through the device together; from pinned memory copies run beside other streams' work, and a call waits for
its own. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemegen.kernels.floats import FLOAT_BITS, first_nonfinite
from schemegen.kernels.torch_device import here, on_device, to_host
from schemegen.kernels.torch_words import packed_words, unpacked_codes

Bits = npt.NDArray[np.unsignedinteger[Any]]
Words = npt.NDArray[np.uint32]

_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
_SIGNED = {"BF16": torch.int16, "F16": torch.int16, "F32": torch.int32}


@torch.inference_mode()
def quantize_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, device: str = "cpu"
) -> int:
    """Fill packed [rows, cols * num_bits / 32] and scales [rows, cols / group_size] from weights [rows, cols].

    Returns -1, or the flat index of the first NaN or infinite weight, and then what was filled means nothing.
    """
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        words, found, broken = encoded(bits, dtype, num_bits)
        to_host(found, scales)
        to_host(words.view(packed.shape), packed)
        # Reading a value waits for the stream, and so for the copies before it.
        return first_nonfinite(weights, dtype) if bool(broken.item()) else -1


@torch.inference_mode()
def recode_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Words, scales: Bits, device: str = "cpu"
) -> int:
    """-1 if every stored code is what its weight rounds to under its stored scale, else the first flat index where not.

    No code is right where the weight or the scale is not finite, or the scale is zero.
    """
    with here(device):
        bits = on_device(weights, device).view(*scales.shape, group_size)
        stored = on_device(scales, device)
        wrong = _codes(bits, dtype, num_bits, stored) != unpacked_codes(on_device(packed, device), num_bits)
        wrong = wrong.view(bits.shape).logical_or_(_magnitudes(bits, dtype) >= FLOAT_BITS[dtype].infinity)
        size = _magnitudes(stored, dtype)
        wrong.logical_or_(((size == 0) | (size >= FLOAT_BITS[dtype].infinity)).unsqueeze(-1))
        flat = wrong.view(-1)
        return int(flat.to(torch.uint8).argmax().item()) if bool(flat.any().item()) else -1


@torch.inference_mode()
def decode_int(
    packed: Words,
    dtype: str,
    num_bits: int,
    group_size: int,
    scales: Bits,
    weights_out: Bits,
    device: str = "cpu",
) -> None:
    """Fill weights_out [rows, cols] with code times scale, as compressed-tensors' decompression gives it."""
    with here(device):
        codes = unpacked_codes(on_device(packed, device), num_bits).view(*scales.shape, group_size)
        values = codes.to(torch.float32).sub_(2 ** (num_bits - 1))
        values.mul_(_values(on_device(scales, device), dtype).unsqueeze(-1))
        to_host(values.to(_DTYPES[dtype]).view(_SIGNED[dtype]).view(weights_out.shape), weights_out, wait=True)


def encoded(bits: Any, dtype: str, num_bits: int) -> tuple[Any, Any, Any]:
    """Words, flat, scales [rows, groups], and whether any weight is NaN or infinite, of bits [rows, groups, size].

    All are tensors of one device, bits as signed integers.
    """
    scales, top = _scales(bits, dtype, num_bits)
    words = packed_words(_codes(bits, dtype, num_bits, scales), num_bits)
    return words, scales, (top >= FLOAT_BITS[dtype].infinity).any()


def _scales(bits: Any, dtype: str, num_bits: int) -> tuple[Any, Any]:
    """Scales as bits, [rows, groups], and the largest magnitudes: as bits, which grow with the value, NaN above all."""
    top = _magnitudes(bits, dtype).amax(-1)
    half_range = torch.full((1,), (2**num_bits - 1) / 2, dtype=torch.float32, device=bits.device)
    scales = _values(top, dtype).div(half_range).to(_DTYPES[dtype]).view(_SIGNED[dtype])
    return scales.masked_fill_(scales == 0, FLOAT_BITS[dtype].epsilon), top


def _codes(bits: Any, dtype: str, num_bits: int, scales: Any) -> Any:
    """Codes as stored, uint8, flat: weight / scale rounded to the dtype, then to an integer half to even, and clamped.

    The quotient alone needs F32: what follows is exact in any dtype, since all of it are integers of 8 bits.
    """
    low, high = -(2 ** (num_bits - 1)), 2 ** (num_bits - 1) - 1
    quotients = bits.view(_DTYPES[dtype]).to(torch.float32, copy=True)
    quotients = quotients.div_(_values(scales, dtype).unsqueeze(-1)).to(_DTYPES[dtype])
    # A NaN becomes any code: callers refuse what led to it.
    return quotients.clamp_(low, high).round_().sub_(low).to(torch.uint8).view(-1)


def _values(bits: Any, dtype: str) -> Any:
    return bits.view(_DTYPES[dtype]).to(torch.float32)


def _magnitudes(bits: Any, dtype: str) -> Any:
    return bits.bitwise_and(FLOAT_BITS[dtype].magnitude)
