"""The main promise: every tensor equals what llm-compressor's model_free_ptq writes, name, dtype, shape and bits."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import schemegen
from bench.compare import tensor_differences
from schemegen.checkpoint.sample import write_sample

ROOT = Path(__file__).parents[1]
YARDSTICK = ROOT.parent / "shared" / "yardstick"
pytestmark = pytest.mark.skipif(find_spec("llmcompressor") is None, reason="llm-compressor is not installed")


def reference(source: Path, output: Path) -> None:
    """Run the reference in a process of its own, offline."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    command = [sys.executable, str(ROOT / "bench" / "seed_script.py"), str(source), str(output)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("experts", "mtp_experts", "dtype"),
    [
        ("fused", "fused", "BF16"),
        ("separate", "separate", "BF16"),
        ("fused", "separate", "F16"),
        ("separate", "fused", "F32"),
    ],
)
def test_every_tensor_equals_the_reference(tmp_path: Path, experts: str, mtp_experts: str, dtype: str) -> None:
    source = tmp_path / "model"
    write_sample("qwen3.6-moe", source, experts=experts, mtp_experts=mtp_experts, dtype=dtype)  # type: ignore[arg-type]
    reference(source, tmp_path / "theirs")
    schemegen.apply("kimi-k2-int4", source, tmp_path / "ours")
    assert list(tensor_differences(tmp_path / "ours", tmp_path / "theirs", same_shards=True)) == []


@pytest.mark.skipif(not YARDSTICK.is_dir(), reason="the trained yardstick checkpoint is not here")
def test_a_trained_checkpoint_equals_the_reference(tmp_path: Path) -> None:
    reference(YARDSTICK, tmp_path / "theirs")
    schemegen.apply("kimi-k2-int4", YARDSTICK, tmp_path / "ours")
    assert list(tensor_differences(tmp_path / "ours", tmp_path / "theirs", same_shards=True)) == []
