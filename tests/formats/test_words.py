"""Formats in words: what lists, cards and reference pages say is what the format holds."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.formats import storage_of
from schemegen.formats.words import (
    activations_in_words,
    bits_in_words,
    in_short,
    observer_in_words,
    reading_order,
    weights_in_words,
)
from schemegen.scheme import Format, Scheme

INT4 = {"num_bits": 4, "group_size": 32}
NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "scale_dtype": "float8_e4m3fn"}
MXFP8 = {"num_bits": 8, "type": "float", "group_size": 32, "scale_dtype": "uint8"}
TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "observer": None}
BLOCK = {"num_bits": 8, "type": "float", "block_structure": [128, 128]}


@pytest.mark.parametrize(
    ("given", "few", "words"),
    [
        (INT4, "INT4 g32", "INT4, a scale for every 32 weights of a row, symmetric"),
        (
            {**INT4, "narrow_range": True},
            "INT4 g32 narrow range",
            "INT4, a scale for every 32 weights of a row, symmetric, codes -7 to 7",
        ),
        (
            {**INT4, "symmetric": False},
            "INT4 g32 asymmetric",
            "INT4, a scale for every 32 weights of a row, with zero points",
        ),
        (
            {**INT4, "observer": "signed_mse"},
            "INT4 g32 signed_mse",
            "INT4, a scale for every 32 weights of a row, symmetric",
        ),
        ({"num_bits": 8, "strategy": "channel"}, "INT8 per channel", "INT8, a scale for every row, symmetric"),
        (
            {"num_bits": 8, "type": "float", "strategy": "tensor"},
            "FP8 per tensor",
            "FP8, a scale for every matrix, symmetric",
        ),
        (NVFP4, "NVFP4", "NVFP4, a scale for every 16 weights of a row, and one for the layer, symmetric"),
        (
            {name: value for name, value in NVFP4.items() if name != "scale_dtype"},
            "NVFP4",
            "NVFP4, a scale for every 16 weights of a row, and one for the layer, symmetric",
        ),
        (
            {"weights": {"num_bits": 8, "type": "float", "group_size": 32}, "storage": "mxfp8-quantized"},
            "MXFP8",
            "MXFP8, a scale for every 32 weights of a row, symmetric",
        ),
        (
            {"num_bits": 4, "type": "float", "group_size": 32},
            "MXFP4",
            "MXFP4, a scale for every 32 weights of a row, symmetric",
        ),
        (MXFP8, "MXFP8", "MXFP8, a scale for every 32 weights of a row, symmetric"),
        (
            {"weights": BLOCK, "input_activations": {**TOKEN, "strategy": "group", "group_size": 128}},
            "FP8 128x128, FP8 activations",
            "FP8, a scale for every block of 128x128, symmetric",
        ),
    ],
)
def test_weights(given: dict[str, Any], few: str, words: str) -> None:
    format = Format.model_validate(given)
    assert (in_short(format), weights_in_words(format)) == (few, words)


@pytest.mark.parametrize(
    ("given", "few"),
    [
        ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, "NVFP4"),
        ({"num_bits": 4, "type": "float", "group_size": 32}, "MXFP4"),
        ({"num_bits": 8, "type": "float", "group_size": 32, "storage": "mxfp8-quantized"}, "MXFP8"),
    ],
)
def test_a_storage_is_named_whether_or_not_the_scales_dtype_is_spelled(given: dict[str, Any], few: str) -> None:
    stored = storage_of(Format.model_validate(given))
    assert few == stored.partition("-")[0].upper()
    for spelled in ({}, {"scale_dtype": {"NVFP4": "float8_e4m3fn"}.get(few, "uint8")}):
        format = Format.model_validate({**given, **spelled})
        assert storage_of(format) == stored
        assert in_short(format) == few
        assert weights_in_words(format).startswith(f"{few}, a scale for every {given['group_size']} weights of a row")


def test_activations() -> None:
    format = Format.model_validate({"weights": INT4, "input_activations": TOKEN})
    assert activations_in_words(format.input_activations) == "FP8, a scale for every token, found while serving"
    assert activations_in_words(None) == "not quantized"
    assert (bits_in_words(format, 16), bits_in_words(Format.model_validate(INT4), 16)) == ("W4A8", "W4A16")


def test_observers_that_are_known_are_explained() -> None:
    told = [observer_in_words(Format.model_validate({**INT4, "observer": name}).weights) for name in ("mse", "acme")]
    assert told[0].startswith("mse: a search of the clip ratio")
    assert told[1] == "acme"


def test_reading_order_is_one_format_first_few_bits_first_integers_first_numbers_by_size() -> None:
    def scheme(name: str, *formats: dict[str, Any]) -> Scheme:
        named = {f"f{position}": given for position, given in enumerate(formats)}
        rules = [{"role": "mlp", "layers": str(layer), "use": use} for layer, use in enumerate(named)]
        return Scheme.model_validate(
            {"schema_version": 1, "name": name, "summary": "s", "formats": named, "policy": rules}
        )

    int8 = {"num_bits": 8, "strategy": "channel"}
    ordered = [
        scheme("w4a16-g32", INT4),
        scheme("w4a16-g128", INT4),
        scheme("w4afp8", INT4),
        scheme("a-float", NVFP4),
        scheme("a-byte", int8),
        scheme("a-mix", INT4, int8),
    ]
    assert sorted([*reversed(ordered)], key=reading_order) == ordered
