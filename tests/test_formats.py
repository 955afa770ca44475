"""What a quantized matrix becomes: exact pieces."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.errors import UnsupportedError
from schemegen.formats import Piece, pieces, refuses, rounding_fault, storage_of
from schemegen.scheme import Format


def form(**fields: Any) -> Format:
    return Format.model_validate({"num_bits": 4, "group_size": 32} | fields)


@pytest.mark.parametrize(
    ("fields", "dtype", "packed", "scale"),
    [
        ({}, "BF16", (512, 256), (512, 64)),
        ({"group_size": 128}, "F16", (512, 256), (512, 16)),
        ({"num_bits": 8}, "F32", (512, 512), (512, 64)),
        ({"strategy": "channel", "group_size": None}, "BF16", (512, 256), (512, 1)),
        ({"num_bits": 3}, "BF16", (512, 192), (512, 64)),
        ({"num_bits": 6, "group_size": 16}, "BF16", (512, 384), (512, 128)),
    ],
)
def test_pack_quantized_pieces(
    fields: dict[str, Any], dtype: str, packed: tuple[int, ...], scale: tuple[int, ...]
) -> None:
    assert pieces(form(**fields), dtype, 512, 2048) == (
        Piece("weight_packed", "I32", packed),
        Piece("weight_scale", dtype, scale),
        Piece("weight_shape", "I64", (2,), 0),
    )


def test_exact_bytes() -> None:
    sizes = [piece.nbytes for piece in pieces(form(), "BF16", 512, 2048)]
    assert sizes == [512 * 2048 // 2, 512 * 2048 // 32 * 2, 16]


@pytest.mark.parametrize(
    ("fields", "dtype", "columns", "reason"),
    [
        ({}, "BF16", 2048, None),
        ({}, "BF16", 2056, "not divisible by group_size 32"),
        ({"strategy": "channel", "group_size": None}, "BF16", 2052, "codes that fill whole"),
        ({"num_bits": 3, "group_size": 16}, "BF16", 2064, "not divisible by 32, the codes that fill whole"),
        ({"num_bits": 6, "group_size": 16}, "BF16", 2064, None),
        ({}, "F8_E4M3", 2048, "cannot be quantized"),
        ({}, "I64", 2048, "cannot be quantized"),
    ],
)
def test_what_does_not_fit_has_a_reason(fields: dict[str, Any], dtype: str, columns: int, reason: str | None) -> None:
    found = refuses(form(**fields), dtype, 512, columns)
    assert (found is None) if reason is None else (found is not None and reason in found)


@pytest.mark.parametrize("fields", [{}, {"strategy": "channel", "group_size": None}])
@pytest.mark.parametrize("shape", [(0, 256), (64, 0), (0, 0)])
def test_an_empty_matrix_does_not_fit(fields: dict[str, Any], shape: tuple[int, int]) -> None:
    assert refuses(form(**fields), "BF16", *shape) == f"a matrix of shape {[*shape]} is empty"


def test_codes_of_more_than_a_byte_are_not_packed() -> None:
    with pytest.raises(UnsupportedError, match="integers of 2 to 8 bits"):
        pieces(form(num_bits=9), "BF16", 512, 2048)


def test_storage_is_inferred_or_given() -> None:
    assert storage_of(form()) == "pack-quantized"
    assert storage_of(form(storage="int-quantized")) == "int-quantized"
    assert storage_of(form(type="float", num_bits=8)) == "float-quantized"


def test_unoffered_storage_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="marlin-24"):
        pieces(form(storage="marlin-24"), "BF16", 512, 2048)


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
    ],
    ids=str,
)
def test_what_cannot_be_rounded_is_named(fields: dict[str, Any], told: str) -> None:
    assert rounding_fault(form(**fields)) == told
