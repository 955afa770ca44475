"""What is offered, what is refused with a reason, and that compressed-tensors reads a format as schemegen means it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from schemegen_llmcompressor import LlmCompressorRtn

from schemegen import Format
from schemegen.formats import storage_of
from schemegen.peer import scheme_words

GROUP = {"num_bits": 4, "strategy": "group", "group_size": 32}
CHANNEL = {"num_bits": 8, "strategy": "channel"}
FLOAT = {"num_bits": 8, "type": "float"}
TOKEN = {"num_bits": 8, "strategy": "token", "dynamic": True}
OFFERED: list[dict[str, Any]] = [
    GROUP,
    CHANNEL,
    {**GROUP, "num_bits": 3},
    {**CHANNEL, "observer": None},
    {**GROUP, "symmetric": False, "observer": "mse"},
    {**CHANNEL, "input_activations": TOKEN},
    {**GROUP, "storage": "pack-quantized", "input_activations": {**TOKEN, "type": "float"}},
    {"num_bits": 8, "strategy": "tensor", "storage": "int-quantized"},
    {**FLOAT, "strategy": "tensor"},
    {**FLOAT, "strategy": "channel", "input_activations": {**TOKEN, "type": "float"}},
    {**FLOAT, "block_structure": [128, 128]},
    {**FLOAT, "num_bits": 4, "strategy": "tensor_group", "group_size": 16},
    {**FLOAT, "num_bits": 4, "group_size": 32},
    {**FLOAT, "group_size": 32, "scale_dtype": "uint8"},
]


@pytest.mark.parametrize("fields", OFFERED, ids=str)
def test_offered(fields: dict[str, Any]) -> None:
    assert LlmCompressorRtn().refuses(Format.model_validate(fields)) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({**GROUP, "num_bits": 1}, "integers of 2 to 8 bits"),
        ({**FLOAT, "strategy": "token"}, "float-quantized takes the strategies"),
        ({**GROUP, "narrow_range": True}, "is model_free_ptq, which has no narrow_range"),
        ({**GROUP, "observer": "signed_mse"}, "is model_free_ptq, which has no observer signed_mse"),
        ({**GROUP, "observer": "imatrix"}, "does not offer the observer imatrix"),
        ({**GROUP, "dynamic": True}, "weights cannot be dynamic"),
        ({**GROUP, "actorder": "static"}, "does not offer actorder: it sees no activations"),
        ({**GROUP, "observer_kwargs": {"maxshrink": 0.1}}, "does not offer observer_kwargs"),
        ({**CHANNEL, "input_activations": CHANNEL}, "no data to find the range of static activations"),
    ],
    ids=str,
)
def test_refused(fields: dict[str, Any], reason: str) -> None:
    found = LlmCompressorRtn().refuses(Format.model_validate(fields))
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("fields", OFFERED, ids=str)
def test_compressed_tensors_reads_what_schemegen_means(fields: dict[str, Any]) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    format = Format.model_validate(fields)
    told = json.loads(json.dumps(scheme_words(format)))
    theirs = quantization.QuantizationScheme(targets=["Linear"], **told)
    assert theirs.format == storage_of(format)
    for ours, found in ((format.weights, theirs.weights), (format.input_activations, theirs.input_activations)):
        assert (ours is None) == (found is None)
        for name in ("num_bits", "type", "strategy", "group_size", "symmetric", "dynamic", "actorder"):
            assert ours is None or getattr(found, name) == getattr(ours, name), name
    block = format.weights.block_structure
    assert theirs.weights.block_structure == (block and list(block))
    assert theirs.weights.observer == ("memoryless_mse" if fields.get("observer") == "mse" else None)


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({"strategy": "tensor_group", "group_size": 16, "num_bits": 4}, "torch.float8_e4m3fn"),
        ({"group_size": 32, "num_bits": 4}, "torch.uint8"),
        ({"group_size": 32, "scale_dtype": "uint8"}, "torch.uint8"),
        ({"strategy": "channel"}, "None"),
    ],
    ids=str,
)
def test_scales_have_the_dtype_that_the_storage_holds(fields: dict[str, Any], dtype: str) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    told = scheme_words(Format.model_validate({**FLOAT, **fields}))["weights"]
    assert str(quantization.QuantizationArgs(**told).scale_dtype) == dtype
