"""The main promise: every tensor equals what llm-compressor's model_free_ptq writes, name, dtype, shape and bits."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest

import schemegen
from bench.compare import tensor_differences
from schemegen.checkpoint.sample import write_sample

ROOT = Path(__file__).parents[1]
#: A small trained checkpoint, for those who have one: its weights are no noise.
YARDSTICK = os.environ.get("SCHEMEGEN_YARDSTICK", "")
pytestmark = pytest.mark.skipif(find_spec("llmcompressor") is None, reason="llm-compressor is not installed")
Layout = Literal["fused", "separate"]
#: Layout of the experts, of the MTP layer's, and dtype.
CASES: dict[str, tuple[Layout, Layout, Literal["BF16", "F16", "F32"]]] = {
    "fused-fused-BF16": ("fused", "fused", "BF16"),
    "separate-separate-BF16": ("separate", "separate", "BF16"),
    "fused-separate-F16": ("fused", "separate", "F16"),
    "separate-fused-F32": ("separate", "fused", "F32"),
}
RUN_ALL = """
import runpy, sys
quantize = runpy.run_path(sys.argv[1])["quantize"]
for source, output in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
    quantize(source, output)
"""


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """By case: a source, and what the reference makes of it. One process of its own makes all, offline."""
    root = tmp_path_factory.mktemp("references")
    sources = {case: root / case / "model" for case in CASES}
    for case, (experts, mtp_experts, dtype) in CASES.items():
        write_sample("qwen3.6-moe", sources[case], experts=experts, mtp_experts=mtp_experts, dtype=dtype)
    if YARDSTICK:
        sources["trained"] = Path(YARDSTICK)
    made = {case: (source, root / case / "theirs") for case, source in sources.items()}
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    pairs = (str(path) for pair in made.values() for path in pair)
    command = [sys.executable, "-c", RUN_ALL, str(ROOT / "bench" / "seed_script.py"), *pairs]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return made


@pytest.mark.parametrize(
    "case",
    [*CASES, pytest.param("trained", marks=pytest.mark.skipif(not YARDSTICK, reason="SCHEMEGEN_YARDSTICK is not set"))],
)
def test_every_tensor_equals_the_reference(references: dict[str, tuple[Path, Path]], tmp_path: Path, case: str) -> None:
    source, theirs = references[case]
    schemegen.apply("kimi-k2-int4", source, tmp_path / "ours")
    assert list(tensor_differences(tmp_path / "ours", theirs, same_shards=True)) == []
