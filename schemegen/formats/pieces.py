"""The tensors that replace a weight, by storage format: suffixes, dtypes, shapes, and how their rows follow its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

from schemegen.errors import UnsupportedError
from schemegen.formats.storage import storage_fault, storage_of
from schemegen.kernels.floats import FLOAT_BITS
from schemegen.scheme import Format, Quantization

#: Bits of every safetensors dtype the planner lays out or reads as a weight.
DTYPE_BITS: Final = {"I64": 64, "I32": 32, "F32": 32, "BF16": 16, "F16": 16, "I8": 8, "U8": 8, "F8_E4M3": 8}
WEIGHT_DTYPES: Final = tuple(FLOAT_BITS)
_WORD_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """One stored tensor of a quantized matrix: name suffix, dtype and shape.

    `own_rows` rows of it belong to `per_rows` rows of the matrix; with `per_rows` 0 it belongs to the whole.
    """

    suffix: str
    dtype: str
    shape: tuple[int, ...]
    per_rows: int = 1
    own_rows: int = 1

    @property
    def nbytes(self) -> int:
        """Exact bytes on disk."""
        return prod(self.shape) * DTYPE_BITS[self.dtype] // 8

    def rows_before(self, rows: int) -> int:
        """How many of its rows belong to the first `rows` rows of the matrix."""
        return -(-rows * self.own_rows // self.per_rows)


def group_of(weights: Quantization, columns: int) -> int:
    """Weights that share a scale along a row: the group size, or the whole row where the strategy has no groups."""
    return columns if weights.group_size is None else weights.group_size


def refuses(format: Format, dtype: str, rows: int, columns: int) -> str | None:
    """Why a [rows, columns] matrix of this dtype cannot take the format, or None."""
    if not rows or not columns:
        return f"a matrix of shape [{rows}, {columns}] is empty"
    if dtype not in WEIGHT_DTYPES:
        return f"dtype {dtype} cannot be quantized; {', '.join(WEIGHT_DTYPES)} can"
    if fault := storage_fault(format):
        return fault
    group = group_of(format.weights, columns)
    if columns % group:
        return f"width {columns} is not divisible by group_size {group}"
    whole = _WORD_BITS // gcd(_WORD_BITS, format.weights.num_bits)
    if storage_of(format) == "pack-quantized" and columns % whole:
        return f"width {columns} is not divisible by {whole}, the codes that fill whole 32-bit words"
    return None


def pieces(format: Format, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    """The tensors that replace a [rows, columns] weight of `dtype`, in the order backends fill them."""
    if fault := storage_fault(format):
        raise UnsupportedError(fault)
    return _LAYOUTS[storage_of(format)](format.weights, dtype, rows, columns)


def _pack_quantized(weights: Quantization, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    """Codes lie densely, also across words: code i of a row at bit i * num_bits (compressed-tensors' pack_to_int32).

    Zero points are packed likewise, down the columns.
    """
    groups, bits = columns // group_of(weights, columns), weights.num_bits
    common = gcd(_WORD_BITS, bits)
    words = -(-rows * bits // _WORD_BITS)
    zero_point = Piece("weight_zero_point", "I32", (words, groups), _WORD_BITS // common, bits // common)
    return (
        Piece("weight_packed", "I32", (rows, columns * bits // _WORD_BITS)),
        Piece("weight_scale", dtype, (rows, groups)),
        Piece("weight_shape", "I64", (2,), 0),
        *(() if weights.symmetric else (zero_point,)),
    )


def _plain(code: str) -> Callable[[Quantization, str, int, int], tuple[Piece, ...]]:
    """A code an item, and scales in the weights' dtype: int-quantized and float-quantized."""

    def layout(weights: Quantization, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
        return Piece("weight", code, (rows, columns)), _scales(weights, dtype, rows, columns)

    return layout


def _scales(weights: Quantization, dtype: str, rows: int, columns: int) -> Piece:
    if weights.strategy == "tensor":
        return Piece("weight_scale", dtype, (1,), 0)
    if weights.block_structure is not None:
        height, width = weights.block_structure
        return Piece("weight_scale", dtype, (-(-rows // height), -(-columns // width)), height)
    return Piece("weight_scale", dtype, (rows, columns // group_of(weights, columns)))


def _nvfp4(weights: Quantization, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    return (
        Piece("weight_packed", "U8", (rows, columns // 2)),
        Piece("weight_scale", "F8_E4M3", (rows, columns // group_of(weights, columns))),
        Piece("weight_global_scale", "F32", (1,), 0),
    )


def _mxfp4(weights: Quantization, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    return (
        Piece("weight_packed", "U8", (rows, columns // 2)),
        Piece("weight_scale", "U8", (rows, columns // group_of(weights, columns))),
    )


def _mxfp8(weights: Quantization, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    return (
        Piece("weight", "F8_E4M3", (rows, columns)),
        Piece("weight_scale", "U8", (rows, columns // group_of(weights, columns))),
    )


_LAYOUTS: Final[dict[str, Callable[[Quantization, str, int, int], tuple[Piece, ...]]]] = {
    "pack-quantized": _pack_quantized,
    "int-quantized": _plain("I8"),
    "float-quantized": _plain("F8_E4M3"),
    "nvfp4-pack-quantized": _nvfp4,
    "mxfp4-pack-quantized": _mxfp4,
    "mxfp8-quantized": _mxfp8,
}
