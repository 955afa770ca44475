"""The backend keeps its contract, and its results are whole checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from schemegen_example.backend import FORMAT, PlainInt8

import schemegen
from schemegen.testing import check_backend, sample_checkpoint


def test_it_conforms() -> None:
    assert check_backend(PlainInt8) == ("INT8 per channel, INT8 activations",)


def test_it_computes_the_format_of_the_scheme_and_of_schemes_like_it() -> None:
    for scheme in ("example-w8a8", "w8a8-int8"):
        assert schemegen.plan(scheme, "sample:qwen3.6-moe").formats_used == {"int8": FORMAT}


@pytest.mark.parametrize("layout", ["stacked", "one-by-one"])
def test_its_bits_are_those_of_the_native_backend(tmp_path: Path, layout: Literal["stacked", "one-by-one"]) -> None:
    source = sample_checkpoint(tmp_path / "source", layout, "F16")
    ours, native = tmp_path / "ours", tmp_path / "native"
    schemegen.apply("example-w8a8", source, ours, backend="example-int8")
    schemegen.apply("example-w8a8", source, native)
    for shard in native.glob("*.safetensors"):
        assert (ours / shard.name).read_bytes() == shard.read_bytes()
    assert schemegen.verify(ours, source).checks
