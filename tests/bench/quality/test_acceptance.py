"""A block without experts is told from one with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.quality.acceptance import drafts_without_experts


@pytest.mark.parametrize(("value", "without"), [(0.0, True), (0.5, False)])
def test_experts_of_zeros_are_noticed(tmp_path: Path, value: float, without: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    from safetensors.torch import save_file

    tensors = {"mtp.layers.0.mlp.experts.down_proj": torch.full((2, 2), value), "mtp.fc.weight": torch.ones(2, 2)}
    save_file(tensors, tmp_path / "model.safetensors")
    save_file({"model.layers.0.mlp.experts.down_proj": torch.ones(2, 2)}, tmp_path / "other.safetensors")
    assert drafts_without_experts(tmp_path) is without
