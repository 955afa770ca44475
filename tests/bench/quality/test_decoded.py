"""A decoded output has its source's layout, what is kept as it was, and noise that can be reckoned by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import schemegen
from bench.compare import tensor_differences
from bench.quality.decoded import decibels, decode, numbers
from schemegen.checkpoint.sample import write_sample


@pytest.mark.parametrize("experts", ["fused", "separate"])
def test_quantized_weights_alone_change(experts: Literal["fused", "separate"], tmp_path: Path) -> None:
    source, output, decoded = (tmp_path / name for name in ("source", "output", "decoded"))
    write_sample("qwen3.6-moe", source, experts=experts)
    plan = schemegen.apply("kimi-k2-int4", source, output, device="cpu").plan
    sqnr = decode(plan, output, source, decoded)
    quantized = {tensor.name for tensor in plan.tensors if tensor.format is not None}
    assert {line.partition(":")[0] for line in tensor_differences(source, decoded, same_shards=True)} == quantized
    # Were matrices or pieces swapped, noise would be as large as the signal.
    assert sqnr.keys() == {"routed_expert"}
    assert 18 < sqnr["routed_expert"] < 24


def test_decibels() -> None:
    assert decibels(25, 0.25) == pytest.approx(20)
    assert decibels(1, 0) == math.inf


def test_numbers_of_bits() -> None:
    assert list(numbers(np.array([0x3F80, 0xC000], np.uint16), "BF16")) == [1, -2]
    assert list(numbers(np.array([0x3C00], np.uint16), "F16")) == [1]
    assert list(numbers(np.array([0x3F000000], np.uint32), "F32")) == [0.5]
