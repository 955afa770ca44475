from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PeerInt:
    """What compressed-tensors makes of a matrix: bits of scales, words, and the weights it restores."""

    scales: Array
    packed: Array
    restored: Array


def _peer_int(raw: Array, dtype: str, num_bits: int, group_size: int) -> PeerInt:
    """Symmetric pack-quantized integers by compressed-tensors; a group of the whole width is the strategy channel."""
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("compressed_tensors.quantization")
    packer = pytest.importorskip("compressed_tensors.compressors").BaseCompressor.load_from_registry("pack-quantized")
    size = None if group_size == raw.shape[1] else group_size
    strategy = "channel" if size is None else "group"
    args = peer.QuantizationArgs(num_bits=num_bits, strategy=strategy, group_size=size, symmetric=True)
    scheme = peer.QuantizationScheme(targets=["Linear"], weights=args)
    signed = {2: torch.int16, 4: torch.int32}[raw.itemsize]
    torch_dtype = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype]
    weight = torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(torch_dtype)
    observed = weight.unflatten(-1, (-1, group_size))
    scale, _ = peer.utils.calculate_qparams(observed.amin(-1), observed.amax(-1), args)
    made = packer.compress({"weight": weight, "weight_scale": scale}, scheme)
    # Before decompression, which takes the dictionary apart.
    words = made["weight_packed"].numpy().view(np.uint32).copy()
    restored = packer.decompress(made, scheme)["weight"]
    return PeerInt(scale.view(signed).numpy().view(raw.dtype), words, restored.view(signed).numpy().view(raw.dtype))


@dataclass(frozen=True)
class PlainInt:
    """Symmetric pack-quantized integers in plain numpy, a step at a time: the tests' own reading of the format."""

    dtype: str
    num_bits: int

    @property
    def uint(self) -> Any:
        return np.uint32 if self.dtype == "F32" else np.uint16

    @property
    def infinity(self) -> int:
        return {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F800000}[self.dtype]

    def widen(self, bits: Array) -> Array:
        if self.dtype == "F32":
            return bits.view(np.float32)
        if self.dtype == "F16":
            return bits.view(np.float16).astype(np.float32)
        return (bits.astype(np.uint32) << 16).view(np.float32)

    def narrow(self, values: npt.ArrayLike) -> Array:
        """Bits of the nearest value of the dtype; values F32, not NaN."""
        values = np.ascontiguousarray(values, np.float32)
        if self.dtype == "F32":
            return values.view(np.uint32)
        if self.dtype == "F16":
            return values.astype(np.float16).view(np.uint16)
        return _nearest_bf16(values)

    def scales(self, weights: Array, group_size: int) -> Array:
        groups = self.widen(weights).reshape(weights.shape[0], -1, group_size)
        scales = self.narrow(np.abs(groups).max(-1) / np.float32((2**self.num_bits - 1) / 2))
        epsilon = {"BF16": 2.0**-7, "F16": 2.0**-10, "F32": 2.0**-23}[self.dtype]
        scales[self.widen(scales) == 0] = self.narrow([epsilon])[0]
        return scales

    def codes(self, weights: Array, scales: Array) -> Array:
        """Signed codes [rows, cols] of weights under scales [rows, groups]."""
        groups = self.widen(weights).reshape(*scales.shape, -1)
        quotients = self.widen(self.narrow(groups / self.widen(scales)[..., None]))
        top = 2 ** (self.num_bits - 1)
        return np.clip(np.rint(quotients), -top, top - 1).astype(np.int64).reshape(weights.shape)

    def pack(self, codes: Array) -> Array:
        """Words [rows, cols * bits / 32], the first code in the lowest bits, by way of single bits."""
        stored = (codes + 2 ** (self.num_bits - 1)).astype(np.uint8)
        bits = np.unpackbits(stored[..., None], axis=-1, bitorder="little")[..., : self.num_bits]
        packed = np.packbits(bits.reshape(codes.shape[0], -1), axis=-1, bitorder="little")
        return np.ascontiguousarray(packed).view("<u4").astype(np.uint32)

    def quantize(self, weights: Array, group_size: int) -> tuple[Array, Array]:
        with np.errstate(over="ignore", under="ignore"):
            scales = self.scales(weights, group_size)
            return self.pack(self.codes(weights, scales)), scales

    def specials(self) -> list[int]:
        """Zeros, smallest and largest subnormal, smallest normal, one and its neighbour, largest: both signs."""
        ones = {"BF16": 0x3F80, "F16": 0x3C00, "F32": 0x3F800000}[self.dtype]
        step = {"BF16": 0x80, "F16": 0x400, "F32": 0x800000}[self.dtype]
        sign = 1 << np.dtype(self.uint).itemsize * 8 - 1
        positive = [0, 1, 2, 7, 8, step - 1, step, step + 1, 3 * step, ones, ones + 1, self.infinity - 1]
        return [*positive, *(bits | sign for bits in positive)]


@pytest.fixture(scope="session")
def plain_int() -> type[PlainInt]:
    return PlainInt


def _nearest_bf16(values: Array) -> Array:
    """Bits of the nearest BF16 by distance to both neighbours, the even one of two as near; values F32, not NaN."""
    raw = np.asarray(values, np.float32).view(np.uint32)
    below = (raw & 0x7FFFFFFF) >> 16
    low, high = _bf16_value(below), _bf16_value(below + 1)
    exact = np.abs(values).astype(np.float64)
    up = (high - exact < exact - low) | ((high - exact == exact - low) & (below % 2 == 1))
    nearest: Array = (below + (up & (below < 0x7F80))) | (raw >> 16 & 0x8000)
    return nearest.astype(np.uint16)


def _bf16_value(index: Array) -> Array:
    """Magnitudes in order of size; the first after the largest counts as 2**128."""
    values = np.minimum(index, 0x7F7F).astype(np.uint32) << 16
    return np.where(index < 0x7F80, values.view(np.float32).astype(np.float64), 2.0**128)


@pytest.fixture(scope="session")
def nearest_bf16() -> Callable[[Array], Array]:
    return _nearest_bf16


@pytest.fixture(scope="session")
def weight_bits() -> Callable[[str, int, int, int, int], Array]:
    """(dtype, rows, cols, group size, seed) → finite weights of every kind a group can be made of."""
    return _weight_bits


def _weight_bits(dtype: str, rows: int, cols: int, group_size: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    plain = PlainInt(dtype, 4)
    exponents = {"BF16": (-140, 128), "F16": (-26, 16), "F32": (-150, 128)}[dtype]
    scale = np.ldexp(1.0, rng.integers(*exponents, (rows, cols // group_size, 1)))
    values = rng.standard_normal((rows, cols // group_size, group_size)) * scale / 3
    limit = float(plain.widen(np.array([plain.infinity - 1], plain.uint))[0])
    with np.errstate(under="ignore", over="ignore"):
        bits = plain.narrow(np.clip(values, -limit, limit).astype(np.float32))
    # Multiples of half a code under a scale that is a power of two are ties.
    ties = rng.random(scale.shape[:2]) < 0.2
    bits[ties] = plain.narrow(rng.integers(-15, 16, bits[ties].shape) / 2)
    bits[ties, 0] = plain.narrow([7.5])
    specials = rng.choice(np.array(plain.specials(), plain.uint), bits.shape)
    bits = np.where(rng.random(bits.shape) < rng.choice([0, 0, 0.05, 1], scale.shape), specials, bits)
    bits[rng.random(scale.shape[:2]) < 0.1] = 0
    return np.ascontiguousarray(bits.reshape(rows, cols), plain.uint)


@pytest.fixture
def peer_int() -> Callable[[Array, str, int, int], PeerInt]:
    """compressed-tensors at work: weights [rows, cols] as bits, dtype, bits, group size."""
    return _peer_int
