"""What a group says of weights and activations: compressed-tensors' own models read every format of ours as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import declare
from schemegen.engines.arguments import activation_arguments, weight_arguments
from schemegen.planner import Plan
from schemegen.scheme import Format, Quantization
from tests.engines.conftest import FORMATS

MakePlan = Callable[..., Plan]
OWN = {"narrow_range"}
"""Fields of ours that are none of theirs."""


def format_of(name: str) -> Format:
    return Format.model_validate(FORMATS[name])


@pytest.mark.parametrize("name", FORMATS)
def test_compressed_tensors_reads_what_is_written(name: str) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    format = format_of(name)
    for written, ours in (
        (weight_arguments(format), format.weights),
        (activation_arguments(format.input_activations), format.input_activations),
    ):
        if written is not None and ours is not None:
            read = json.loads(
                quantization.QuantizationArgs.model_validate(json.loads(json.dumps(written))).model_dump_json()
            )
            assert read.items() >= {key: value for key, value in written.items() if key != "zp_dtype"}.items()
            for field in ("num_bits", "type", "strategy", "group_size", "symmetric", "dynamic"):
                assert read[field] == getattr(ours, field)
            assert not written.keys() & OWN


@pytest.mark.parametrize("name", ["int4", "int4_asym", "int8", "w8a8", "fp8", "fp8_block", "nvfp4", "mxfp4", "mxfp8"])
def test_compressed_tensors_infers_the_storage_that_the_group_names(name: str) -> None:
    scheme = pytest.importorskip("compressed_tensors.quantization.quant_scheme")
    infer = pytest.importorskip("compressed_tensors.compressors.format").infer_module_format
    linear = pytest.importorskip("torch").nn.Linear
    format = format_of(name)
    written = {"weights": weight_arguments(format), "input_activations": activation_arguments(format.input_activations)}
    group = declare_alone(name)
    assert infer(linear, scheme.QuantizationScheme(targets=["Linear"], **written)).value == group


def declare_alone(name: str) -> str:
    from schemegen.formats import storage_of

    return storage_of(format_of(name))


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_block_is_read(mixed_plan: MakePlan, name: str) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    if name == "w4afp8":
        pytest.importorskip("compressed_tensors")
    block = declare(mixed_plan({"role": "attention", "part": "text", "use": name}), QWEN3_5_MOE)
    config = quantization.QuantizationConfig.model_validate(json.loads(json.dumps(block)))
    assert config.format == config.config_groups["group_0"].format == block["format"]


@pytest.mark.parametrize(
    ("name", "scale_dtype"),
    [("mxfp4", "torch.uint8"), ("mxfp8", "torch.uint8"), ("nvfp4", "torch.float8_e4m3fn"), ("int4", None)],
)
def test_dtypes_of_scales_are_spelled_as_torch_does(name: str, scale_dtype: str | None) -> None:
    """vLLM knows MXFP8 by it, whether or not the scheme says it."""
    assert weight_arguments(format_of(name)).get("scale_dtype") == scale_dtype


@pytest.mark.parametrize(
    ("name", "observer"),
    [("int4", "minmax"), ("exact", "minmax"), ("searched", "memoryless_mse"), ("signed", "memoryless_mse")],
)
def test_observers_have_names_that_llm_compressor_knows(name: str, observer: str) -> None:
    assert weight_arguments(format_of(name))["observer"] == observer


def test_blocks_are_lists_and_nothing_observes_dynamic_activations() -> None:
    format = format_of("fp8_block")
    assert json.loads(json.dumps(weight_arguments(format)))["block_structure"] == [128, 128]
    written = activation_arguments(format.input_activations)
    assert written is not None
    assert (written["observer"], written["group_size"], written["dynamic"]) == (None, 128, True)
    static = activation_arguments(Quantization(strategy="tensor", zp_dtype="int8"))
    assert static is not None
    assert (static["observer"], static["zp_dtype"]) == ("minmax", "torch.int8")


def test_no_two_formats_look_alike_but_for_how_they_were_rounded() -> None:
    written: Mapping[str, Any] = {name: json.dumps(weight_arguments(format_of(name))) for name in FORMATS}
    alike = {frozenset(n for n, other in written.items() if other == text) for text in written.values()}
    assert {names for names in alike if len(names) > 1} == {
        frozenset({"int4", "exact", "w4afp8"}),
        frozenset({"searched", "signed"}),
        frozenset({"int8", "w8a8", "int8_alone"}),
        frozenset({"fp8", "fp8_alone"}),
    }
