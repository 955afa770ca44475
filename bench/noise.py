"""Weights by the gigabyte: slices of one block of normal noise, each bent by sign, mantissa and exponent."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.layout import Tensor

Bits = NDArray[np.uint16] | NDArray[np.uint32]
BLOCK = 1 << 23
CHUNK = 1 << 20
GROUP = 32
# dtype -> bits an element, bits of mantissa, smallest subnormal, largest finite value.
FLOATS: dict[str, tuple[int, int, float, float]] = {
    "BF16": (16, 7, 2.0**-133, 2.0**128 - 2.0**120),
    "F16": (16, 10, 2.0**-24, 65504.0),
    "F32": (32, 23, 2.0**-149, float(np.finfo(np.float32).max)),
}


def values(tensor: Tensor) -> Iterator[Bits]:
    """The tensor's elements as raw bits, in chunks of at most 2 MB (4 MB in F32); the same on every call."""
    expert = bool(tensor.pieces)
    for key, count in tensor.pieces or ((tensor.name, math.prod(tensor.shape)),):
        for at in range(0, count, CHUNK):
            chunk = _bent(tensor.dtype, f"{key}@{at}", min(CHUNK, count - at))
            if expert and at == 0:
                groups = awkward_groups(tensor.dtype)
                chunk[: groups.size] = groups
            yield chunk


@cache
def awkward_groups(dtype: str) -> Bits:
    """Groups of 32 that rounding code gets wrong: zeros, minus zeros, outliers, subnormals, ties, extremes."""
    _, mantissa, tiny, top = FLOATS[dtype]
    ramp, alternating = np.arange(GROUP), np.where(np.arange(GROUP) % 2, -1.0, 1.0)
    one = np.eye(1, GROUP, 5)[0]
    rows = [
        np.zeros(GROUP),
        np.full(GROUP, -0.0),
        one,
        -one,
        1e-3 * alternating + 100 * one,
        tiny * ramp,
        np.where(ramp % 2, -tiny, -0.0),
        # Half of it: between the least and the largest of a group the distance has to be a number too.
        top / 2 * alternating,
        top * one - 1e-2 * alternating,
        (ramp - 15) / 2.0,
        np.where(ramp == 0, -7.5, (ramp % 15) / 2.0),
        np.full(GROUP, 0.3),
        tiny * 2.0**mantissa * alternating,
    ]
    return _to_bits(np.concatenate(rows), dtype)


def _bent(dtype: str, key: str, count: int) -> Bits:
    width, mantissa, _, _ = FLOATS[dtype]
    seed, block = zlib.crc32(key.encode()), _block(dtype)
    start = seed % (BLOCK - count)
    mask = (seed & ((1 << min(mantissa, 7)) - 1)) | ((seed >> 8 & 1) << (width - 1))
    chunk = block[start : start + count] ^ block.dtype.type(mask)
    chunk += block.dtype.type((seed >> 9) % 3 << mantissa)
    return chunk


@cache
def _block(dtype: str) -> Bits:
    rng = np.random.default_rng(20261130)
    noise = rng.standard_normal(BLOCK, dtype=np.float32) * np.float32(0.01)
    # Nothing below 2^-13: a bent exponent then stays normal in F16 too, and the sign of zero is never touched.
    floor = np.float32(2.0**-13)
    return _to_bits(np.where(np.abs(noise) < floor, floor, noise), dtype)


def _to_bits(numbers: NDArray[np.floating], dtype: str) -> Bits:
    if dtype == "F16":
        return numbers.astype(np.float16).view(np.uint16)
    words = numbers.astype(np.float32).view(np.uint32)
    return (words >> np.uint32(16)).astype(np.uint16) if dtype == "BF16" else words
