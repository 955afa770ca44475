"""Weights that rounding gets wrong, and the bits of the torch path on a device against the CPU's for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.noise import awkward_groups
from schemegen.kernels.floats import FLOAT_BITS

Bits = npt.NDArray[np.unsignedinteger[Any]]

UINTS: dict[str, Any] = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32}
MANTISSA = {"BF16": 7, "F16": 10, "F32": 23}
COLUMNS = 1024
GROUPS = (32, 128, COLUMNS)
FUSED, OTHER = (4, 8), (2, 3, 5, 6, 7)


def weights_of(dtype: str, group_size: int, rows: int, seed: int) -> Bits:
    """Finite weights [rows, 1024]: normal at every exponent, any bits, ties, zeros, subnormals and extremes."""
    rng = np.random.default_rng(seed)
    uint, infinity = UINTS[dtype], FLOAT_BITS[dtype].infinity
    groups = rows * COLUMNS // group_size
    tops = _tops(rng, infinity, groups)[:, None]
    # The others of a group are mostly less than two exponents below, as in a trained matrix.
    below = (np.abs(rng.standard_normal((groups, group_size))) * (2 << MANTISSA[dtype])).astype(np.int64)
    bits = np.maximum(tops - below, 0).astype(uint)
    bits[:, 0] = tops[:, 0]
    bits[1::8] = rng.integers(0, infinity, bits[1::8].shape)
    bits[2::16] = _ties(rng, dtype, bits[2::16].shape)
    bits[3::64] = 0
    awkward = np.resize(np.asarray(awkward_groups(dtype), uint), (groups // 16, group_size))
    bits[5::16][: len(awkward)] = awkward[: len(bits[5::16])]
    bits |= rng.integers(0, 2, bits.shape).astype(uint) << uint(uint(0).itemsize * 8 - 1)
    return np.ascontiguousarray(bits.reshape(rows, COLUMNS), uint)


def _tops(rng: np.random.Generator, infinity: int, count: int) -> npt.NDArray[np.int64]:
    """A largest magnitude for each group: of 16-bit dtypes every one in turn, shuffled, of F32 any."""
    if infinity >= 1 << 16:
        return rng.integers(0, infinity, count)
    return np.concatenate([rng.permutation(infinity) for _ in range(-(-count // infinity))])[:count]


def _ties(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Bits:
    """Multiples of half a code under a scale that is a power of two."""
    halves = (rng.integers(0, 16, shape) / 2).astype(np.float32)
    halves[:, 1] = 7.5
    if dtype == "F32":
        return halves.view(np.uint32)
    return halves.astype(np.float16).view(np.uint16) if dtype == "F16" else (halves.view(np.uint32) >> 16).astype("u2")


def differences(device: str, rows: int) -> Iterator[tuple[str, int, str | None]]:
    """For each format what was compared, how many weights, and where the first difference lies, if any."""
    for dtype in UINTS:
        for group_size in GROUPS:
            weights = weights_of(dtype, group_size, rows, group_size)
            for num_bits in (*FUSED, *OTHER):
                name = f"INT{num_bits} {'channel' if group_size == COLUMNS else f'group {group_size}'}, {dtype}"
                yield name, weights.size, _difference(weights, dtype, num_bits, group_size, device)


def _difference(weights: Bits, dtype: str, num_bits: int, group_size: int, device: str) -> str | None:
    """The first difference in quantizing, restoring, checking or finding what is not finite; None where all agree."""
    from schemegen.kernels import cpu, torch_int

    reference: Any = cpu if num_bits in FUSED else torch_int
    ours, theirs = (_buffers(weights, num_bits, group_size) for _ in range(2))
    torch_int.quantize_int(weights, dtype, num_bits, group_size, *ours[:2], device)
    reference.quantize_int(weights, dtype, num_bits, group_size, *theirs[:2])
    torch_int.decode_int(ours[0], dtype, num_bits, group_size, ours[1], ours[2], device)
    reference.decode_int(theirs[0], dtype, num_bits, group_size, theirs[1], theirs[2])
    for what, left, right in zip(("weight_packed", "weight_scale", "restored weight"), ours, theirs, strict=True):
        if not np.array_equal(left, right):
            place = tuple(int(axis[0]) for axis in np.nonzero(left != right))
            return f"{what} {list(place)}: {int(left[place]):#x} against {int(right[place]):#x}"
    where = torch_int.recode_int(weights, dtype, num_bits, group_size, *ours[:2], device)
    if where != -1:
        return f"recode finds {where} in what quantize made"
    return _missed(weights, dtype, num_bits, group_size, device, ours)


def _missed(
    weights: Bits, dtype: str, num_bits: int, group_size: int, device: str, buffers: tuple[Bits, Bits, Bits]
) -> str | None:
    from schemegen.kernels import torch_int

    for position, bad in (
        (weights.size // 3, FLOAT_BITS[dtype].infinity),
        (weights.size - 1, FLOAT_BITS[dtype].infinity + 1),
    ):
        broken = weights.copy()
        broken.flat[position] = bad
        found = torch_int.quantize_int(broken, dtype, num_bits, group_size, *buffers[:2], device)
        if found != position:
            return f"{bad:#x} at {position} is found at {found}"
    return None


def _buffers(weights: Bits, num_bits: int, group_size: int) -> tuple[Bits, Bits, Bits]:
    rows, columns = weights.shape
    packed = np.zeros((rows, columns * num_bits // 32), np.uint32)
    return packed, np.zeros((rows, columns // group_size), weights.dtype), np.zeros_like(weights)
