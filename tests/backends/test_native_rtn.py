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
def test_symmetric_int4_and_int8_are_taken_without_torch(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schemegen.backends.native_rtn.has_torch", lambda: False)
    assert NativeRtn().refuses(form(**fields)) is None


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(
    ("fields", "what"),
    [({"num_bits": bits}, f"INT{bits} in groups of 32") for bits in (2, 3, 5, 6, 7)]
    + [
        ({"num_bits": 3, "strategy": "channel", "group_size": None}, "INT3"),
        ({"group_size": 4}, "INT4 in groups of 4"),
        ({"group_size": 6, "num_bits": 8}, "INT8 in groups of 6"),
    ],
)
def test_other_widths_and_groups_are_for_torch(
    fields: dict[str, Any], what: str, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schemegen.backends.native_rtn.has_torch", lambda: installed)
    told = f"computes {what} with torch, which is not installed: pip install torch"
    assert NativeRtn().refuses(form(**fields)) == (None if installed else told)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "float", "num_bits": 8}, "pack-quantized only"),
        ({"storage": "int-quantized"}, "pack-quantized only"),
        ({"num_bits": 1}, "symmetric integers of 2 to 8 bits"),
        ({"num_bits": 9}, "symmetric integers of 2 to 8 bits"),
        ({"symmetric": False}, "symmetric integers of 2 to 8 bits"),
        ({"strategy": "tensor", "group_size": None}, "strategies group and channel"),
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
