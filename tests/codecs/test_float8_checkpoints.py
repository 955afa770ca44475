"""FP8 schemes from file to folder: llm-compressor's checkpoint, planned to the byte, verified against its source."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from functools import cache
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
    input_activations: {{num_bits: 8, type: float, {activations}, dynamic: true, observer: null}}
# Blocks do not divide what the vision tower's matrices measure, and llm-compressor saves no others.
policy:
  - {{part: vision, use: keep}}
  - {{role: [attention, routed_expert], use: fp8}}
"""
KINDS: dict[str, dict[str, Any]] = {
    "channel": {"strategy": "channel"},
    "tensor": {"strategy": "tensor"},
    "block": {"strategy": "block", "block_structure": [128, 128]},
    "mx": {"strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
}
#: Activations that engines take beside them.
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "channel": {"strategy": "token"},
    "tensor": {"strategy": "tensor"},
    "block": {"strategy": "group", "group_size": 128},
    "mx": {"strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
Scheme = Callable[..., Path]
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def scheme(tmp_path_factory: pytest.TempPathFactory) -> Scheme:
    """A factory: kind, observer → a scheme file."""

    def write(kind: str, observer: str = "minmax") -> Path:
        path = tmp_path_factory.mktemp("scheme") / "fp8-of-a-test.yaml"
        weights = fields_of(KINDS[kind] | {"observer": observer})
        path.write_text(SCHEME.format(weights=weights, activations=fields_of(ACTIVATIONS[kind])))
        return path

    return write


def fields_of(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())


@pytest.fixture(scope="module")
def made(sample_folder: Path, scheme: Scheme, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A factory: kind, observer → the output of whole matrices, made once; nobody may change it."""

    @cache
    def make(kind: str, observer: str = "minmax") -> Path:
        output = tmp_path_factory.mktemp("made") / "out"
        return schemegen.apply(scheme(kind, observer), sample_folder, output).path

    return make


def reference(source: Path, output: Path, modules: list[str], kind: str, observer: str) -> None:
    """model_free_ptq of these modules."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model_free_ptq = pytest.importorskip("llmcompressor").model_free_ptq
        quantization = pytest.importorskip("compressed_tensors.quantization")
        scheme = quantization.QuantizationScheme(
            targets=modules,
            weights=quantization.QuantizationArgs(
                num_bits=8, type="float", observer=f"memoryless_{observer}", **KINDS[kind]
            ),
            input_activations=quantization.QuantizationArgs(
                num_bits=8, type="float", dynamic=True, observer=None, **ACTIVATIONS[kind]
            ),
            format="mxfp8-quantized" if kind == "mx" else "float-quantized",
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
    chosen = scheme(kind, observer)
    modules = quantized_modules(schemegen.plan(chosen, source))
    assert len(modules) > 100
    reference(source, tmp_path / "theirs", modules, kind, observer)
    schemegen.apply(chosen, source, tmp_path / "ours")
    assert list(tensor_differences(tmp_path / "ours", tmp_path / "theirs", same_shards=True)) == []


@every_kind
def test_what_is_written_is_what_was_planned_and_verifies(
    kind: str, sample_folder: Path, scheme: Scheme, made: Made
) -> None:
    plan = schemegen.plan(scheme(kind), sample_folder)
    found = {
        tensor.name: (tensor.dtype, tuple(tensor.shape), tensor.nbytes)
        for path in made(kind).glob("*.safetensors")
        for tensor in read_header(path, path.name).tensors
    }
    planned = {
        output.name: (output.dtype, tuple(output.shape), output.nbytes)
        for tensor in plan.tensors
        for output in tensor.outputs
    }
    assert found == planned
    report = schemegen.verify(made(kind), sample_folder)
    assert any(f"the codes of {len(quantized_modules(plan))} quantized matrices" in check for check in report.checks)


@pytest.mark.parametrize(
    ("kind", "observer"),
    [*((kind, "minmax") for kind in KINDS), *((kind, "mse") for kind in KINDS if kind != "tensor")],
)
def test_blocks_of_rows_make_no_difference(
    kind: str, observer: str, sample_folder: Path, scheme: Scheme, made: Made, tmp_path: Path, small_steps: Any
) -> None:
    if observer == "mse":
        pytest.importorskip("torch")
    schemegen.apply(scheme(kind, observer), sample_folder, tmp_path / "blocks")
    assert (small_steps.blocks > 10) == (observer == "minmax")
    assert contents(tmp_path / "blocks") == contents(made(kind, observer))
    if observer == "minmax":
        assert schemegen.verify(tmp_path / "blocks", sample_folder).bytes_read > 0


@every_kind
def test_the_device_makes_no_difference(
    kind: str, sample_folder: Path, scheme: Scheme, made: Made, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    schemegen.apply(scheme(kind), sample_folder, tmp_path / "torch", device="torch:cpu")
    assert contents(tmp_path / "torch") == contents(made(kind))


WRONG = "is not the code that the source's weight rounds to under the stored scale"
UNUSABLE = "is zero, infinite or no number"


@every_kind
@pytest.mark.parametrize(
    ("suffix", "change", "named", "fault"),
    [
        ("weight", lambda last: last ^ 1, "weight", WRONG),
        # The highest byte of a scale: its exponent, which changes codes.
        ("weight_scale", lambda last: last ^ 1, "weight", WRONG),
        ("weight_scale", lambda _: 0xFF, "weight_scale", UNUSABLE),
    ],
    ids=["code", "scale", "no number"],
)
def test_an_altered_byte_is_found_against_the_source_alone(
    kind: str,
    suffix: str,
    change: Callable[[int], int],
    named: str,
    fault: str,
    sample_folder: Path,
    scheme: Scheme,
    made: Made,
    forge: Callable[[Path], None],
    tmp_path: Path,
    small_steps: Any,
) -> None:
    """The manifest is forged to match: digests tell nothing, only the source does."""
    module = quantized_modules(schemegen.plan(scheme(kind), sample_folder))[-1]
    output = Path(shutil.copytree(made(kind), tmp_path / "out"))
    path, tensor = stored(output, f"{module}.{suffix}")
    raw = np.memmap(path, np.uint8, "r+", tensor.offset, tensor.nbytes)
    raw[-1] = change(int(raw[-1]))
    if fault is UNUSABLE and kind != "mx":
        raw[-2] = 0xFF
    raw.flush()
    forge(output)
    schemegen.verify(output)
    with pytest.raises(VerificationError) as caught:
        schemegen.verify(output, sample_folder)
    assert all(found.startswith(f"{module}.{named} at [") for found in caught.value.findings)
    assert all(found.endswith(fault) for found in caught.value.findings)


def stored(output: Path, name: str) -> tuple[Path, TensorHeader]:
    """The shard of a stored tensor, and its place there."""
    for path in sorted(output.glob("*.safetensors")):
        for tensor in read_header(path, path.name).tensors:
            if tensor.name == name:
                return path, tensor
    raise AssertionError(name)


def test_a_weight_that_is_not_finite_is_named_where_one_scale_serves_the_matrix(
    sample_folder: Path, scheme: Scheme, tmp_path: Path, small_steps: Any
) -> None:
    source = Path(shutil.copytree(sample_folder, tmp_path / "model"))
    chosen = scheme("tensor")
    tensor = [tensor for tensor in schemegen.plan(chosen, source).tensors if tensor.format is not None][-1]
    place = tuple(length - 2 for length in tensor.source.shape)
    values = np.memmap(source / tensor.source.file, np.uint16, "r+", tensor.source.offset, tensor.source.shape)
    values[place] = 0x7FC0
    values.flush()
    with pytest.raises(schemegen.CheckpointError) as caught:
        schemegen.apply(chosen, source, tmp_path / "out")
    assert f"{tensor.name} holds NaN or infinity at {list(place)}" in str(caught.value)
