"""A small checkpoint in two shards, to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TENSORS = {
    "a.weight": ("F32", (2, 2), b"a" * 16),
    "b.weight": ("BF16", (3,), b"b" * 6),
    "c.weight": ("I8", (5,), b"c" * 5),
}


@pytest.fixture
def toy(tmp_path: Path, write_checkpoint: Callable[..., Path]) -> Path:
    """A folder with config, index and two shards: a and b in one.safetensors, c in two.safetensors."""
    shards = {"one.safetensors": ["a.weight", "b.weight"], "two.safetensors": ["c.weight"]}
    return write_checkpoint(tmp_path / "toy", TENSORS, {"model_type": "toy"}, shards)
