"""What one quantized matrix becomes on disk: suffixes, dtypes, shapes and exact bytes of each format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

from schemegen.errors import UnsupportedError
from schemegen.kernels.floats import FLOAT_BITS
from schemegen.kernels.integers import INT_BITS
from schemegen.scheme import Format, Quantization

#: Bits of every safetensors dtype the planner lays out or reads as a weight.
DTYPE_BITS: Final = {"I64": 64, "I32": 32, "F32": 32, "BF16": 16, "F16": 16, "I8": 8, "U8": 8, "F8_E4M3": 8}
WEIGHT_DTYPES: Final = tuple(FLOAT_BITS)
_MOST_PACKED_BITS: Final = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """One stored tensor of a quantized matrix: name suffix, dtype and shape."""

    suffix: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Exact bytes on disk."""
        return prod(self.shape) * DTYPE_BITS[self.dtype] // 8


def storage_of(format: Format) -> str:
    """The compressed-tensors storage format: as given, or inferred as compressed-tensors infers it."""
    if format.storage is not None:
        return format.storage
    weights = format.weights
    if weights.type == "int" and format.input_activations is None:
        return "pack-quantized"
    return "int-quantized" if weights.type == "int" else "float-quantized"


def group_of(weights: Quantization, columns: int) -> int:
    """Weights that share a scale along a row: the group size, or the whole row for the channel strategy."""
    return columns if weights.group_size is None else weights.group_size


def refuses(format: Format, dtype: str, rows: int, columns: int) -> str | None:
    """Why a [rows, columns] matrix of this dtype cannot take the format, or None."""
    if not rows or not columns:
        return f"a matrix of shape [{rows}, {columns}] is empty"
    if dtype not in WEIGHT_DTYPES:
        return f"dtype {dtype} cannot be quantized; {', '.join(WEIGHT_DTYPES)} can"
    group = group_of(format.weights, columns)
    if columns % group:
        return f"width {columns} is not divisible by group_size {group}"
    whole = 32 // gcd(32, format.weights.num_bits)
    if columns % whole:
        return f"width {columns} is not divisible by {whole}, the codes that fill whole 32-bit words"
    return None


def plain_integer_fault(format: Format) -> str | None:
    """Why a format is not plain rounding of weights to symmetric integers, pack-quantized, by their extremes; or None.

    A predicate of whoever computes that and no more: "offers …", "does not offer …".
    """
    weights = format.weights
    if storage_of(format) != "pack-quantized":
        return f"stores pack-quantized only, not {storage_of(format)}"
    if format.input_activations or format.output_activations:
        return "quantizes weights only"
    if weights.type != "int" or weights.num_bits not in INT_BITS or not weights.symmetric:
        return f"offers symmetric integers of {INT_BITS[0]} to {INT_BITS[-1]} bits only"
    if weights.strategy not in ("group", "channel"):
        return f"offers the strategies group and channel, not {weights.strategy}"
    return next((f"does not offer {name}" for name, given in _odd_fields(weights).items() if given), None)


def _odd_fields(weights: Quantization) -> dict[str, bool]:
    """What plain rounding has no place for, and whether it is asked for."""
    return {
        "narrow_range": weights.narrow_range,
        "dynamic weights": bool(weights.dynamic),
        "actorder: it sees no activations": weights.actorder is not None,
        f"the observer {weights.observer}": weights.observer not in (None, "minmax"),
        "observer_kwargs": bool(weights.observer_kwargs),
        "scale_dtype: scales have the dtype of the weights": weights.scale_dtype is not None,
        "zp_dtype: there is no zero point": weights.zp_dtype is not None,
    }


def pieces(format: Format, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    """The tensors that replace a [rows, columns] weight of `dtype`, in the order backends fill them."""
    storage = storage_of(format)
    layout = _LAYOUTS.get(storage)
    if layout is None:
        raise UnsupportedError(f"storage {storage!r} is not offered yet; {', '.join(_LAYOUTS)} is")
    return layout(format.weights, dtype, rows, columns)


def _pack_quantized(weights: Quantization, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
    """Codes lie densely, also across words: code i of a row at bit i * num_bits (compressed-tensors' pack_to_int32)."""
    if weights.type != "int" or not weights.symmetric or weights.strategy not in ("group", "channel"):
        raise UnsupportedError("pack-quantized is offered for symmetric integers with strategy group or channel")
    if weights.num_bits > _MOST_PACKED_BITS:
        raise UnsupportedError(f"pack-quantized holds codes of at most {_MOST_PACKED_BITS} bits")
    return (
        Piece("weight_packed", "I32", (rows, columns * weights.num_bits // 32)),
        Piece("weight_scale", dtype, (rows, columns // group_of(weights, columns))),
        Piece("weight_shape", "I64", (2,)),
    )


_LAYOUTS: Final[dict[str, Callable[[Quantization, str, int, int], tuple[Piece, ...]]]] = {
    "pack-quantized": _pack_quantized
}
