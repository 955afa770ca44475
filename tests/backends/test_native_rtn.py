"""What the native backend takes and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.backends.native_rtn import NativeRtn
from schemegen.scheme import Format


def form(**fields: Any) -> Format:
    return Format.model_validate({"num_bits": 4, "group_size": 32} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"group_size": 8},
        {"group_size": 4, "num_bits": 8},
        {"group_size": 128},
        {"num_bits": 8},
        {"strategy": "channel", "group_size": None},
    ],
)
def test_symmetric_int4_and_int8_are_taken(fields: dict[str, Any]) -> None:
    assert NativeRtn().refuses(form(**fields)) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "float", "num_bits": 8}, "pack-quantized only"),
        ({"storage": "int-quantized"}, "pack-quantized only"),
        ({"num_bits": 3}, "symmetric INT4 and INT8"),
        ({"symmetric": False}, "symmetric INT4 and INT8"),
        ({"strategy": "tensor", "group_size": None}, "strategies group and channel"),
        ({"group_size": 4}, "packs 8 codes into a word: group_size 4 is no multiple of 8"),
        ({"group_size": 6, "num_bits": 8}, "packs 4 codes into a word: group_size 6 is no multiple of 4"),
        ({"narrow_range": True}, "narrow_range"),
        ({"observer": "mse"}, "observer"),
        ({"actorder": "group"}, "actorder"),
        ({"scale_dtype": "float32"}, "scale_dtype"),
        (
            {"storage": "pack-quantized", "input_activations": {"num_bits": 8, "strategy": "token", "dynamic": True}},
            "weights only",
        ),
    ],
)
def test_everything_else_is_refused_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    found = NativeRtn().refuses(form(**fields))
    assert found is not None
    assert reason in found
