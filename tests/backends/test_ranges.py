"""Weights whose range no scale of their dtype can span are the source's fault; any other bad scale is the backend's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from schemegen.backends.base import Backend, Buffers, Job, Weights
from schemegen.backends.guard import GuardedBackend
from schemegen.backends.native_rtn import NativeRtn
from schemegen.errors import CheckpointError, PluginError
from schemegen.formats import pieces
from schemegen.planner import Chunk
from schemegen.scheme import Format

TOPS = {"BF16": 0x7F7F, "F16": 0x7BFF, "F32": 0x7F7FFFFF}


class Infinite(Backend):
    """Writes scales of infinity whatever the weights are."""

    name: ClassVar[str] = "infinite"

    def refuses(self, format: Format) -> None:
        return None

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        out["weight_scale"][...] = 0x7C00


def quantized(backend: Backend, bits: Any, dtype: str, first: tuple[int, int] = (0, 0), **fields: Any) -> None:
    """A chunk of bits [1, rows, 64] of a matrix [64, 64], in groups of 32, through the guard."""
    format = Format.model_validate({"num_bits": 4, "group_size": 32, "symmetric": False, **fields})
    found = pieces(format, dtype, bits.shape[1], 64)
    tensor: Any = SimpleNamespace(
        name="t", pieces=found, matrix_shape=(64, 64), source=SimpleNamespace(dtype=dtype, shape=(64, 64))
    )
    chunk: Any = SimpleNamespace(tensor=tensor, first=first, shape=bits.shape)
    plan = SimpleNamespace(format_of=lambda _: format)
    job: Any = SimpleNamespace(plan=plan, device="cpu", read=lambda *chunks: Weights(bits, dtype))
    uints = {"I32": "u4", "I64": "u8", dtype: bits.dtype}
    out = {piece.suffix: np.zeros((1, *piece.shape), uints[piece.dtype]) for piece in found}
    GuardedBackend(backend, "acme 2.0").quantize_chunk(job, chunk, out)


@pytest.mark.parametrize("dtype", TOPS)
def test_a_range_wider_than_the_dtype_is_told_with_its_place(dtype: str) -> None:
    bits = np.zeros((1, 8, 64), np.uint32 if dtype == "F32" else np.uint16)
    bits[0, 3, 40], bits[0, 3, 50] = TOPS[dtype], TOPS[dtype] | 1 << bits.itemsize * 8 - 1
    told = rf"tensor t: the 32 weights from \[11, 32\] on span more than {dtype} can hold.* keep the tensor"
    with pytest.raises(CheckpointError, match=told):
        quantized(NativeRtn(), bits, dtype, first=(0, 8))
    bits[0, 3, 50] = 0
    quantized(NativeRtn(), bits, dtype)


def test_symmetric_scales_hold_what_weights_hold() -> None:
    bits = np.full((1, 8, 64), TOPS["F16"], np.uint16)
    bits[..., ::2] |= 0x8000
    quantized(NativeRtn(), bits, "F16", symmetric=True)


def test_an_infinite_scale_of_an_ordinary_range_is_the_backends_fault() -> None:
    with pytest.raises(PluginError, match="it wrote a scale of tensor t that is NaN, infinite or zero"):
        quantized(Infinite(), np.full((1, 8, 64), 0x3C00, np.uint16), "F16")
