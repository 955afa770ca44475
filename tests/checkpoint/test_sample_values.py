"""The sample's numbers: the same in every layout, rounded once, and of sane size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.sample import write_sample
from schemegen.checkpoint.sample_values import Dtype

EXPERTS = "model.language_model.layers.1.mlp.experts"


def load(folder: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors of a checkpoint, widened to F32."""
    found = {}
    for tensor in open_local(folder).tensors:
        raw = (folder / tensor.shard).read_bytes()[tensor.offset : tensor.offset + tensor.nbytes]
        if tensor.dtype == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, "<f4" if tensor.dtype == "F32" else "<f2").astype(np.float32)
        found[tensor.name] = values.reshape(tensor.shape)
    return found


def written(folder: Path, dtype: Dtype) -> dict[str, NDArray[np.float32]]:
    """The sample's tensors in a dtype."""
    write_sample("qwen3.6-moe", folder, dtype=dtype)
    assert {tensor.dtype for tensor in open_local(folder).tensors} == {dtype}
    return load(folder)


def test_layouts_hold_the_same_numbers(tmp_path: Path, sample_folder: Path) -> None:
    fused = load(sample_folder)
    write_sample("qwen3.6-moe", tmp_path, experts="separate")
    separate = load(tmp_path)
    for module in (EXPERTS, "mtp.layers.0.mlp.experts"):
        gate_up, down = fused.pop(f"{module}.gate_up_proj"), fused.pop(f"{module}.down_proj")
        width = gate_up.shape[1] // 2
        for expert in range(len(down)):
            parts = [separate.pop(f"{module}.{expert}.{part}_proj.weight") for part in ("gate", "up", "down")]
            assert np.array_equal(parts[0], gate_up[expert, :width])
            assert np.array_equal(parts[1], gate_up[expert, width:])
            assert np.array_equal(parts[2], down[expert])
    for name in fused.keys() & separate.keys():
        assert np.array_equal(fused[name], separate[name])


def test_dtypes_round_the_same_numbers_once(tmp_path: Path, sample_folder: Path) -> None:
    full, half = written(tmp_path / "f32", "F32"), written(tmp_path / "f16", "F16")
    brain = load(sample_folder)
    for name, values in full.items():
        assert np.array_equal(half[name], values.astype(np.float16).astype(np.float32))
        # Nearest: no neighbouring BF16 lies closer, and on a tie the even one is taken.
        exact, rounded = values[values != 0], brain[name][values != 0]
        bits, error = rounded.view(np.uint32), np.abs(rounded - exact)
        for step in (np.uint32(0xFFFF0000), np.uint32(0x10000)):
            distance = np.abs((bits + step).view(np.float32) - exact)
            assert (error <= distance).all()
            assert not ((bits >> np.uint32(16)) & np.uint32(1))[error == distance].any()
        assert not brain[name][values == 0].any()


def test_values_are_finite_and_of_sane_size(sample_folder: Path) -> None:
    for name, values in load(sample_folder).items():
        assert np.isfinite(values).all()
        if name.endswith(("linear_attn.norm.weight", "norm1.weight", "norm2.weight", "merger.norm.weight", "dt_bias")):
            assert np.abs(values - 1).max() < 0.05
        elif "norm" in name or name.endswith(".bias"):
            assert np.abs(values).max() < 0.05
        elif name.endswith("A_log"):
            assert 0 < values.min() <= values.max() < 2.78
        else:
            assert 0.01 < values.std() < 0.2
            assert abs(values.mean()) < 5 * values.std() / np.sqrt(values.size)


def test_no_two_tensors_are_alike(sample_folder: Path) -> None:
    firsts = {values.ravel()[:16].tobytes() for values in load(sample_folder).values() if values.size >= 16}
    assert len(firsts) == sum(values.size >= 16 for values in load(sample_folder).values())


@pytest.mark.parametrize("name", ["A_log", "dt_bias"])
def test_heads_differ(sample_folder: Path, name: str) -> None:
    values = load(sample_folder)[f"model.language_model.layers.0.linear_attn.{name}"]
    assert len(set(values.tolist())) == len(values)
