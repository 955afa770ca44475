"""Modules by what is stored of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from schemegen.checkpoint.model import TensorHeader
from schemegen.described.stored import contents_of, matrix_shape, misfit
from schemegen.scheme import Format, Quantization

INT4 = Format(weights=Quantization(num_bits=4, strategy="group", group_size=32))
FP8 = Format(weights=Quantization(num_bits=8, type="float", strategy="channel"))
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


def headers(shapes: Shapes) -> list[TensorHeader]:
    """Headers by name, with dtype and shape."""
    return [TensorHeader(name, dtype, shape, "x", 0, 0) for name, (dtype, shape) in shapes.items()]


def test_modules_and_what_is_kept_are_told_apart() -> None:
    found = contents_of(
        headers(
            {
                "a.weight_scale": ("BF16", (4, 1)),
                "a.weight": ("F8_E4M3", (4, 8)),
                "a.bias": ("BF16", (4,)),
                "b.weight_packed": ("I32", (4, 8)),
                "b.weight_scale": ("BF16", (4, 2)),
                "c.weight": ("BF16", (4, 8)),
                "c.k_scale": ("F32", (1,)),
                "d.input_scale": ("F32", (1,)),
                "e.weight_scale": ("F32", (1,)),
            }
        )
    )
    assert [(module.name, sorted(module.tensors)) for module in found.quantized] == [
        ("a", ["weight", "weight_scale"]),
        ("b", ["weight_packed", "weight_scale"]),
    ]
    assert [header.name for header in found.plain] == ["a.bias", "c.weight"]


@pytest.mark.parametrize(
    ("shapes", "format", "shape"),
    [
        ({"a.weight_packed": ("I32", (4, 8))}, INT4, (4, 64)),
        (
            {"a.weight_packed": ("U8", (4, 8))},
            Format(weights=Quantization(num_bits=4, type="float", strategy="group", group_size=32)),
            (4, 16),
        ),
        ({"a.weight": ("F8_E4M3", (4, 8)), "a.weight_scale": ("BF16", (4, 1))}, FP8, (4, 8)),
        ({"a.weight_packed": ("I32", (2, 4, 8))}, INT4, None),
    ],
)
def test_the_matrix_that_was(shapes: Shapes, format: Format, shape: tuple[int, int] | None) -> None:
    (stored,) = contents_of(headers(shapes)).quantized
    assert matrix_shape(stored, format) == shape


@pytest.mark.parametrize("scale", [("BF16", (4, 1)), ("BF16", (4,)), ("F32", (4, 1))])
def test_a_scale_a_row_is_one_however_it_is_written(scale: tuple[str, tuple[int, ...]]) -> None:
    (stored,) = contents_of(headers({"a.weight": ("F8_E4M3", (4, 8)), "a.weight_scale": scale})).quantized
    assert misfit(stored, FP8) is None
    assert misfit(stored, INT4) == "a.weight_packed is missing"
