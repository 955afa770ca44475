"""What rounding without data offers, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.formats import rounding_fault
from schemegen.scheme import Format


def form(**fields: Any) -> Format:
    return Format.model_validate({"num_bits": 4, "group_size": 32} | fields)


TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True}
FP8 = {"num_bits": 8, "type": "float", "group_size": None}
NARROW = "offers narrow_range for symmetric pack-quantized integers with the observer minmax only"


@pytest.mark.parametrize(
    "fields",
    [
        {"input_activations": TOKENS | {"type": "float"}, "storage": "pack-quantized"},
        {"num_bits": 8, "strategy": "channel", "group_size": None, "input_activations": TOKENS},
        FP8 | {"strategy": "tensor"},
        FP8 | {"strategy": "channel", "input_activations": TOKENS | {"type": "float"}},
        FP8 | {"strategy": "block", "block_structure": [128, 128]},
        {"type": "float"},
        {"type": "float", "strategy": "tensor_group", "group_size": 16, "scale_dtype": "float8_e4m3fn"},
        {"type": "float", "num_bits": 8, "scale_dtype": "uint8"},
    ],
    ids=str,
)
def test_every_storage_is_offered(fields: dict[str, Any]) -> None:
    assert rounding_fault(form(**fields)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"observer": "minmax"},
        {"observer": "mse"},
        {"observer": "signed_mse"},
        {"narrow_range": True},
        {"symmetric": False},
        {"strategy": "channel", "group_size": None},
    ],
    ids=str,
)
def test_packed_integers_have_no_fault(fields: dict[str, Any]) -> None:
    assert [rounding_fault(form(**fields, num_bits=bits)) for bits in range(2, 9)] == [None] * 7


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"num_bits": 9}, "pack-quantized holds integers of 2 to 8 bits"),
        ({"strategy": "tensor", "group_size": None}, "pack-quantized takes the strategies group and channel"),
        ({"dynamic": True}, "weights cannot be dynamic"),
        ({"actorder": "static"}, "does not offer actorder: it sees no activations"),
        ({"observer": "imatrix"}, "does not offer the observer imatrix; minmax, mse, signed_mse are"),
        ({"observer_kwargs": {"maxshrink": 0.1}}, "does not offer observer_kwargs"),
        ({"scale_dtype": "float32"}, "pack-quantized has scales of the weights' dtype: leave scale_dtype out"),
        ({"zp_dtype": "int8"}, "does not offer zp_dtype"),
        ({"output_activations": TOKENS}, "quantizes no output activations"),
        (
            {"input_activations": TOKENS | {"dynamic": False}},
            "has no data to find the range of static activations; take dynamic: true",
        ),
        ({"narrow_range": True, "observer": "mse"}, NARROW),
        ({"narrow_range": True, "symmetric": False}, NARROW),
        (FP8 | {"strategy": "channel", "narrow_range": True}, NARROW),
        (FP8 | {"strategy": "tensor", "observer": "mse"}, "does not offer the observer mse with one scale a tensor"),
        (
            FP8 | {"strategy": "channel", "observer": "signed_mse"},
            "offers the observer signed_mse for symmetric pack-quantized integers only",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_rounded_is_named(fields: dict[str, Any], told: str) -> None:
    assert rounding_fault(form(**fields)) == told
