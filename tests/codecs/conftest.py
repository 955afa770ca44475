"""Formats, buffers for what a format stores, and weights as the codecs take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.formats import DTYPE_BITS, pieces
from schemegen.scheme import Format

Array = npt.NDArray[Any]


def _format(**fields: Any) -> Format:
    return Format.model_validate({"num_bits": 4, "group_size": 32} | fields)


def _buffers(format: Format, dtype: str, shape: tuple[int, int, int]) -> dict[str, Array]:
    """What `encode` fills of [matrices, rows, columns], full of ones before."""
    matrices, rows, columns = shape
    return {
        piece.suffix: np.full((matrices, *piece.shape), 1, f"u{DTYPE_BITS[piece.dtype] // 8}")
        for piece in pieces(format, dtype, rows, columns)
        if piece.suffix != "weight_shape"
    }


def _widened(bits: Array, dtype: str) -> Array:
    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(bits.view(np.float16 if dtype == "F16" else np.float32).astype(np.float32))


def _bits(values: Array, dtype: str) -> Array:
    """Raw bits of F32 values, or of some near them: BF16 cuts off."""
    with np.errstate(all="ignore"):
        if dtype == "F16":
            return values.astype(np.float16).view(np.uint16)
        raw = values.astype(np.float32).view(np.uint32)
    return (raw >> np.uint32(16)).astype(np.uint16) if dtype == "BF16" else raw


def _weights(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    return _bits(np.random.default_rng(seed).standard_normal(shape) * 0.05, dtype)


@pytest.fixture(scope="session")
def format_of() -> Callable[..., Format]:
    """fields → a format of INT4 in groups of 32 but for these."""
    return _format


@pytest.fixture(scope="session")
def buffers() -> Callable[[Format, str, tuple[int, int, int]], dict[str, Array]]:
    return _buffers


@pytest.fixture(scope="session")
def random_weights() -> Callable[..., Array]:
    """(dtype, shape, seed) → bits of normal noise."""
    return _weights


@pytest.fixture(scope="session")
def widened() -> Callable[[Array, str], Array]:
    """(bits, dtype) → their values as F32."""
    return _widened


@pytest.fixture(scope="session")
def narrowed() -> Callable[[Array, str], Array]:
    """(values, dtype) → bits of values that the dtype has, or near them: BF16 cuts off."""
    return _bits
