"""What is offered, what is refused with a reason, and that compressed-tensors reads a format as schemegen means it."""

from __future__ import annotations

from typing import Any

import pytest
from schemegen_llmcompressor import LlmCompressorRtn
from schemegen_llmcompressor.orders import arguments

from schemegen import Format

GROUP = {"num_bits": 4, "strategy": "group", "group_size": 32}
CHANNEL = {"num_bits": 8, "strategy": "channel"}


@pytest.mark.parametrize("fields", [GROUP, CHANNEL, {**GROUP, "num_bits": 3}, {**CHANNEL, "observer": None}], ids=str)
def test_offered(fields: dict[str, Any]) -> None:
    assert LlmCompressorRtn().refuses(Format.model_validate(fields)) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({**GROUP, "symmetric": False}, "offers symmetric integers of 2 to 8 bits only"),
        ({**GROUP, "num_bits": 1}, "offers symmetric integers of 2 to 8 bits only"),
        ({**GROUP, "num_bits": 16}, "offers symmetric integers of 2 to 8 bits only"),
        ({"num_bits": 8, "strategy": "tensor"}, "offers the strategies group and channel, not tensor"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "stores pack-quantized only, not float-quantized"),
        ({**CHANNEL, "storage": "int-quantized"}, "stores pack-quantized only, not int-quantized"),
        ({**GROUP, "narrow_range": True}, "does not offer narrow_range"),
        ({**GROUP, "dynamic": True}, "does not offer dynamic weights"),
        ({**GROUP, "actorder": "static"}, "does not offer actorder: it sees no activations"),
        ({**GROUP, "observer": "mse"}, "does not offer the observer mse"),
        ({**GROUP, "observer_kwargs": {"maxshrink": 0.1}}, "does not offer observer_kwargs"),
        ({**GROUP, "scale_dtype": "torch.float8_e4m3fn"}, "scales have the dtype of the weights"),
        ({**GROUP, "zp_dtype": "torch.int8"}, "there is no zero point"),
        (
            {"weights": CHANNEL, "input_activations": CHANNEL, "storage": "pack-quantized"},
            "quantizes weights only",
        ),
    ],
    ids=str,
)
def test_refused(fields: dict[str, Any], reason: str) -> None:
    found = LlmCompressorRtn().refuses(Format.model_validate(fields))
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("fields", [GROUP, CHANNEL, {**CHANNEL, "observer": None}], ids=str)
def test_compressed_tensors_reads_what_schemegen_means(fields: dict[str, Any]) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    ours = Format.model_validate(fields).weights
    theirs = quantization.QuantizationArgs(**arguments(ours))
    for name in ("num_bits", "type", "strategy", "group_size", "symmetric", "dynamic", "actorder", "scale_dtype"):
        assert getattr(theirs, name) == getattr(ours, name), name
    assert theirs.observer == "minmax"
