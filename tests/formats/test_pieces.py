"""What a quantized matrix becomes: exact pieces."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.errors import UnsupportedError
from schemegen.formats import Piece, pieces, refuses, row_step
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


def test_unoffered_storage_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="marlin-24"):
        pieces(form(storage="marlin-24"), "BF16", 512, 2048)


FP8 = {"num_bits": 8, "type": "float", "group_size": None}
FP4 = {"num_bits": 4, "type": "float"}
OTHERS = [
    (
        {"symmetric": False},
        (500, 256),
        [
            Piece("weight_packed", "I32", (500, 32)),
            Piece("weight_scale", "BF16", (500, 8)),
            Piece("weight_shape", "I64", (2,), 0),
            Piece("weight_zero_point", "I32", (63, 8), 8, 1),
        ],
    ),
    (
        {"symmetric": False, "num_bits": 3},
        (500, 256),
        [
            Piece("weight_packed", "I32", (500, 24)),
            Piece("weight_scale", "BF16", (500, 8)),
            Piece("weight_shape", "I64", (2,), 0),
            Piece("weight_zero_point", "I32", (47, 8), 32, 3),
        ],
    ),
    (
        {"num_bits": 8, "strategy": "channel", "group_size": None, "storage": "int-quantized"},
        (500, 250),
        [Piece("weight", "I8", (500, 250)), Piece("weight_scale", "BF16", (500, 1))],
    ),
    (
        FP8 | {"strategy": "channel"},
        (500, 250),
        [Piece("weight", "F8_E4M3", (500, 250)), Piece("weight_scale", "BF16", (500, 1))],
    ),
    (
        FP8 | {"strategy": "tensor"},
        (500, 250),
        [Piece("weight", "F8_E4M3", (500, 250)), Piece("weight_scale", "BF16", (1,), 0)],
    ),
    (
        FP8 | {"strategy": "block", "block_structure": [128, 128]},
        (500, 257),
        [Piece("weight", "F8_E4M3", (500, 257)), Piece("weight_scale", "BF16", (4, 3), 128)],
    ),
    (
        FP4 | {"strategy": "tensor_group", "group_size": 16},
        (500, 256),
        [
            Piece("weight_packed", "U8", (500, 128)),
            Piece("weight_scale", "F8_E4M3", (500, 16)),
            Piece("weight_global_scale", "F32", (1,), 0),
        ],
    ),
    (FP4, (500, 256), [Piece("weight_packed", "U8", (500, 128)), Piece("weight_scale", "U8", (500, 8))]),
    (
        FP8 | {"group_size": 32, "scale_dtype": "uint8"},
        (500, 256),
        [Piece("weight", "F8_E4M3", (500, 256)), Piece("weight_scale", "U8", (500, 8))],
    ),
]


@pytest.mark.parametrize(("fields", "shape", "expected"), OTHERS, ids=str)
def test_pieces_of_every_storage(fields: dict[str, Any], shape: tuple[int, int], expected: list[Piece]) -> None:
    assert pieces(form(**fields), "BF16", *shape) == tuple(expected)


@pytest.mark.parametrize(("fields", "shape", "_"), OTHERS, ids=str)
def test_rows_of_pieces_add_up_to_the_whole(fields: dict[str, Any], shape: tuple[int, int], _: object) -> None:
    rows, columns = shape
    step = row_step(form(**fields), "BF16", rows, columns)
    for piece in pieces(form(**fields), "BF16", rows, columns):
        if piece.per_rows:
            assert piece.rows_before(rows) == piece.shape[0]
            assert (step * piece.own_rows) % piece.per_rows == 0, "a block of rows ends within a row of the piece"


@pytest.mark.parametrize(
    ("fields", "columns", "told"),
    [
        (FP4 | {"strategy": "tensor_group", "group_size": 16}, 250, "width 250 is not divisible by group_size 16"),
        (FP4, 240, "width 240 is not divisible by group_size 32"),
        (FP4 | {"group_size": 64}, 256, "takes the strategy tensor_group"),
        (FP8 | {"strategy": "channel", "symmetric": False}, 256, "float-quantized holds symmetric weights only"),
        (FP8 | {"strategy": "channel", "scale_dtype": "float32"}, 256, "leave scale_dtype out"),
        ({"storage": "float-quantized"}, 256, "float-quantized holds floats of 8 bits"),
        (FP8 | {"strategy": "channel", "num_bits": 4}, 256, "tensor_group"),
        ({"storage": "dense"}, 256, "storage 'dense' is not offered"),
    ],
    ids=str,
)
def test_what_no_storage_holds_has_a_reason(fields: dict[str, Any], columns: int, told: str) -> None:
    found = refuses(form(**fields), "BF16", 64, columns)
    assert found is not None
    assert told in found
