"""FP8 schemes from file to folder: llm-compressor's checkpoint, planned to the byte, verified against its source."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schemegen
from bench.compare import tensor_differences
from schemegen.checkpoint.headers import read_header
from schemegen.checkpoint.model import TensorHeader
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import VerificationError

SCHEME = """
schema_version: 1
name: fp8-of-a-test
summary: FP8 of a test
formats:
  fp8:
    weights: {{num_bits: 8, type: float, {weights}}}
    input_activations: {{num_bits: 8, type: float, strategy: token, dynamic: true, observer: null}}
policy:
  - {{role: [attention, routed_expert], use: fp8}}
"""
# The sample's matrices hold whole blocks of 16 x 32: llm-compressor saves no others.
KINDS: dict[str, dict[str, Any]] = {
    "channel": {"strategy": "channel"},
    "tensor": {"strategy": "tensor"},
    "block": {"strategy": "block", "block_structure": [16, 32]},
    "mx": {"strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
Scheme = Callable[..., Path]


@pytest.fixture
def scheme(tmp_path: Path) -> Scheme:
    """A factory: fields of weights → a scheme file."""

    def write(**weights: Any) -> Path:
        path = tmp_path / "fp8-of-a-test.yaml"
        path.write_text(SCHEME.format(weights=", ".join(f"{name}: {value}" for name, value in weights.items())))
        return path

    return write


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices come in blocks of rows."""
    monkeypatch.setattr("schemegen.planner.chunks.CHUNK_BYTES", 3000)


def reference(source: Path, output: Path, modules: list[str], kind: dict[str, Any], observer: str) -> None:
    """model_free_ptq of these modules."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model_free_ptq = pytest.importorskip("llmcompressor").model_free_ptq
        quantization = pytest.importorskip("compressed_tensors.quantization")
        scheme = quantization.QuantizationScheme(
            targets=modules,
            weights=quantization.QuantizationArgs(num_bits=8, type="float", observer=f"memoryless_{observer}", **kind),
            input_activations=quantization.QuantizationArgs(
                num_bits=8, type="float", strategy="token", dynamic=True, observer=None
            ),
            format="mxfp8-quantized" if "group_size" in kind else "float-quantized",
        )
        config = quantization.QuantizationConfig(config_groups={"group_0": scheme}, ignore=[])
        model_free_ptq(source, output, config=config, device="cpu")


def quantized_modules(plan: schemegen.Plan) -> list[str]:
    return [module for tensor in plan.tensors if tensor.format is not None for module in tensor.modules]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize(
    ("kind", "dtype", "observer"),
    [(kind, "BF16", "minmax") for kind in KINDS]
    + [("channel", "F16", "mse"), ("block", "F32", "mse"), ("mx", "BF16", "mse"), ("tensor", "F16", "minmax")],
)
def test_every_tensor_equals_the_reference(
    kind: str, dtype: Any, observer: str, scheme: Scheme, tmp_path: Path
) -> None:
    source = tmp_path / "model"
    write_sample("qwen3.6-moe", source, experts="separate", dtype=dtype)
    chosen = scheme(observer=observer, **KINDS[kind])
    modules = quantized_modules(schemegen.plan(chosen, source))
    assert len(modules) > 100
    reference(source, tmp_path / "theirs", modules, KINDS[kind], observer)
    schemegen.apply(chosen, source, tmp_path / "ours")
    assert list(tensor_differences(tmp_path / "ours", tmp_path / "theirs", same_shards=True)) == []


@every_kind
def test_what_is_written_is_what_was_planned_and_verifies(
    kind: str, sample_folder: Path, scheme: Scheme, tmp_path: Path
) -> None:
    chosen = scheme(**KINDS[kind])
    plan = schemegen.plan(chosen, sample_folder)
    schemegen.apply(chosen, sample_folder, tmp_path / "out")
    found = {
        tensor.name: (tensor.dtype, tuple(tensor.shape), tensor.nbytes)
        for path in (tmp_path / "out").glob("*.safetensors")
        for tensor in read_header(path, path.name).tensors
    }
    planned = {
        output.name: (output.dtype, tuple(output.shape), output.nbytes)
        for tensor in plan.tensors
        for output in tensor.outputs
    }
    assert found == planned
    report = schemegen.verify(tmp_path / "out", sample_folder)
    assert any(f"the codes of {len(quantized_modules(plan))} quantized matrices" in check for check in report.checks)


@every_kind
@pytest.mark.parametrize("observer", ["minmax", "mse"])
def test_blocks_of_rows_make_no_difference(
    kind: str, observer: str, sample_folder: Path, scheme: Scheme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if observer == "mse":
        pytest.importorskip("torch")
        if kind == "tensor":
            pytest.skip("a search with one scale a tensor is refused")
    chosen = scheme(observer=observer, **KINDS[kind])
    schemegen.apply(chosen, sample_folder, tmp_path / "whole")
    monkeypatch.setattr("schemegen.planner.chunks.CHUNK_BYTES", 3000)
    schemegen.apply(chosen, sample_folder, tmp_path / "blocks")
    assert contents(tmp_path / "blocks") == contents(tmp_path / "whole")
    assert schemegen.verify(tmp_path / "blocks", sample_folder).bytes_read > 0


@every_kind
def test_the_device_makes_no_difference(kind: str, sample_folder: Path, scheme: Scheme, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    chosen = scheme(**KINDS[kind])
    schemegen.apply(chosen, sample_folder, tmp_path / "cpu")
    schemegen.apply(chosen, sample_folder, tmp_path / "torch", device="torch:cpu")
    assert contents(tmp_path / "torch") == contents(tmp_path / "cpu")


@every_kind
@pytest.mark.parametrize("suffix", ["weight", "weight_scale"])
def test_an_altered_byte_is_found_by_name(
    kind: str, suffix: str, sample_folder: Path, scheme: Scheme, tmp_path: Path, small_chunks: None
) -> None:
    chosen = scheme(**KINDS[kind])
    module = quantized_modules(schemegen.plan(chosen, sample_folder))[-1]
    schemegen.apply(chosen, sample_folder, tmp_path / "out")
    path, tensor = stored(tmp_path / "out", f"{module}.{suffix}")
    with path.open("r+b") as file:
        # The highest byte of a scale: its exponent, which changes codes.
        file.seek(tensor.offset + tensor.nbytes - 1)
        byte = file.read(1)[0]
        file.seek(tensor.offset + tensor.nbytes - 1)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(VerificationError) as caught:
        schemegen.verify(tmp_path / "out", sample_folder)
    assert any(f"{module}.weight" in finding for finding in caught.value.findings)


def stored(output: Path, name: str) -> tuple[Path, TensorHeader]:
    """The shard of a stored tensor, and its place there."""
    for path in sorted(output.glob("*.safetensors")):
        for tensor in read_header(path, path.name).tensors:
            if tensor.name == name:
                return path, tensor
    raise AssertionError(name)


def test_a_weight_that_is_not_finite_is_named_where_one_scale_serves_the_matrix(
    sample_folder: Path, scheme: Scheme, tmp_path: Path, small_chunks: None
) -> None:
    source = Path(shutil.copytree(sample_folder, tmp_path / "model"))
    chosen = scheme(strategy="tensor")
    tensor = [tensor for tensor in schemegen.plan(chosen, source).tensors if tensor.format is not None][-1]
    place = tuple(length - 2 for length in tensor.source.shape)
    values = np.memmap(source / tensor.source.file, np.uint16, "r+", tensor.source.offset, tensor.source.shape)
    values[place] = 0x7FC0
    values.flush()
    with pytest.raises(schemegen.CheckpointError) as caught:
        schemegen.apply(chosen, source, tmp_path / "out")
    assert f"{tensor.name} holds NaN or infinity at {list(place)}" in str(caught.value)
