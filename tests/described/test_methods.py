"""What is not compressed-tensors' is named, with a scheme that comes near."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from schemegen.catalog import load_catalog
from schemegen.described.methods import _KNOWN
from schemegen.errors import UnsupportedError

if TYPE_CHECKING:
    from schemegen.checkpoint.model import Checkpoint
    from tests.described.conftest import Describe, Quantized


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, r"quant_method 'fp8' \(FP8 .*near is fp8-block$"),
        ({"quant_method": "gptq", "bits": 4}, "quant_method 'gptq' .*w4a16-g128$"),
        ({"quant_method": "awq"}, "quant_method 'awq'"),
        ({"quant_method": "mxfp4"}, "gpt-oss.*mxfp4a16-experts$"),
        ({"quant_method": "modelopt"}, "ModelOpt"),
        ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "something\nelse"}, r"'something\\nelse' \(a layout that is not read\)"),
        ({"quant_method": ["fp8"]}, "a layout that is not read"),
        ({"bits": 4}, "names no quant_method"),
    ],
)
def test_another_method_is_named_with_a_way_out(
    quantized: Quantized, describe: Describe, block: Mapping[str, Any], told: str
) -> None:
    checkpoint = quantized({"use": "int8"})
    other = replace(checkpoint, config={**checkpoint.config, "model_type": "gpt_oss", "quantization_config": block})
    with pytest.raises(UnsupportedError, match=told):
        describe(other)


def test_quantized_tensors_without_a_block_are_named(quantized: Quantized, describe: Describe) -> None:
    checkpoint = quantized({"use": "int8"})
    config = {name: value for name, value in checkpoint.config.items() if name != "quantization_config"}
    with pytest.raises(UnsupportedError, match="has no quantization_config, though tensor"):
        describe(replace(checkpoint, config=config))


def test_a_model_in_full_precision_is_no_quantized_one(sources: Mapping[str, Checkpoint], describe: Describe) -> None:
    with pytest.raises(UnsupportedError, match=r"is not quantized: .*; give a quantized model"):
        describe(sources["fused"])


def test_schemes_that_come_near_are_there() -> None:
    assert {near for _, near in _KNOWN.values()} <= set(load_catalog().schemes.names())
