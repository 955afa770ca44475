"""Storage is inferred as compressed-tensors infers it, wherever that is something we store."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from schemegen.formats import storage_fault, storage_of
from schemegen.scheme import Format

TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True}
WEIGHTS: list[dict[str, Any]] = [
    {"type": kind, "num_bits": bits} | place
    for kind, bits in (("int", 3), ("int", 4), ("int", 8), ("float", 4), ("float", 8))
    for place in (
        {"strategy": "channel"},
        {"strategy": "tensor"},
        {"strategy": "group", "group_size": 32},
        {"strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
        {"strategy": "group", "group_size": 128},
        {"strategy": "tensor_group", "group_size": 16, "scale_dtype": "float8_e4m3fn"},
        {"strategy": "block", "block_structure": [128, 128]},
    )
]
ACTIVATIONS: list[dict[str, Any] | None] = [None, TOKENS, TOKENS | {"type": "float"}]


def test_storage_may_be_given() -> None:
    weights = {"num_bits": 4, "group_size": 32}
    assert storage_of(Format.model_validate({"weights": weights})) == "pack-quantized"
    assert storage_of(Format.model_validate({"weights": weights, "storage": "int-quantized"})) == "int-quantized"


@pytest.mark.parametrize(("weights", "activations"), [*itertools.product(WEIGHTS, ACTIVATIONS)], ids=str)
def test_inferred_as_compressed_tensors_does(weights: dict[str, Any], activations: dict[str, Any] | None) -> None:
    pytest.importorskip("compressed_tensors")
    import torch
    from compressed_tensors.compressors.format import infer_module_format
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    fields: dict[str, Any] = {"weights": weights} | ({"input_activations": activations} if activations else {})
    format = Format.model_validate(fields)
    theirs = QuantizationScheme(
        targets=["Linear"],
        weights=QuantizationArgs(**weights),
        input_activations=activations and QuantizationArgs(**activations),
    )
    if storage_fault(format) is None:
        inferred = infer_module_format(torch.nn.Linear, theirs).value
        # Theirs falls back on "naive" where no activations are quantized: the same bytes under another name.
        assert storage_of(format) in (inferred, inferred.replace("naive-quantized", "float-quantized"))
