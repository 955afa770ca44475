"""What is stored where a code is wrong, and what belongs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from schemegen.codecs import Wrong, codec_of
from schemegen.formats import storage_of
from schemegen.scheme import Format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Items = NDArray[np.unsignedinteger[Any]]

_CODES: Final = ("weight", "weight_packed")
#: Where engines and llm-compressor divide in the weights' dtype. The other formats' quotients lose nothing in it.
_ROUNDED_FIRST: Final = ("pack-quantized", "int-quantized", "float-quantized")


def told_of(format: Format, dtype: str, weights: Items, stored: Mapping[str, Items], wrong: Wrong) -> str:
    """ "stored 3, expected 4 (weight 0.0131, scale 0.0035; …)" of a wrong code; nothing of another piece."""
    if wrong.suffix not in _CODES:
        return ""
    matrix, row, column = wrong.place
    bits = 8 if wrong.suffix == "weight" else format.weights.num_bits
    alone = {suffix: items[matrix : matrix + 1].copy() for suffix, items in stored.items()}
    line = alone[wrong.suffix][0, row].view("u1")
    found = _code(line, column, bits)
    right = _expected(format, dtype, weights[matrix : matrix + 1], alone, line, (row, column), bits)
    words = [_spelled(format, wrong.suffix, code) for code in (found, right)]
    return f"stored {words[0]}, expected {words[1]} ({_reason(format, dtype, weights, stored, wrong)})"


def _expected(
    format: Format,
    dtype: str,
    weights: Items,
    stored: Mapping[str, Items],
    line: NDArray[np.uint8],
    place: tuple[int, int],
    bits: int,
) -> int | None:
    """The code that is right at a place before which all are: the first with which the next fault lies behind it."""
    for code in range(1 << bits):
        _put(line, place[1], bits, code)
        wrong = codec_of(format).recode(weights, dtype, stored)
        if wrong is None or wrong.place[1:] != place:
            return code
    return None


def _code(line: NDArray[np.uint8], column: int, bits: int) -> int:
    """A code of a row, in which they stand bit by bit, the lowest first."""
    import numpy as np

    found = np.unpackbits(line, bitorder="little")[column * bits : (column + 1) * bits]
    return int(found @ (1 << np.arange(bits)))


def _put(line: NDArray[np.uint8], column: int, bits: int, code: int) -> None:
    import numpy as np

    unpacked = np.unpackbits(line, bitorder="little")
    unpacked[column * bits : (column + 1) * bits] = code >> np.arange(bits) & 1
    line[...] = np.packbits(unpacked, bitorder="little")


def _spelled(format: Format, suffix: str, code: int | None) -> str:
    """Integers as they count, floats as they are stored."""
    if code is None:
        return "none"
    if format.weights.type == "float":
        return f"{code:#04x}"
    half = 128 if suffix == "weight" else 1 << format.weights.num_bits - 1
    # Words hold codes moved up by half of their range, bytes hold them in two's complement.
    return str(code - half if suffix == "weight_packed" else (code + half) % (2 * half) - half)


def _reason(format: Format, dtype: str, weights: Items, stored: Mapping[str, Items], wrong: Wrong) -> str:
    from schemegen.kernels.arrays import widened

    weight = f"weight {float(widened(weights[wrong.place][None], dtype)[0]):.6g}"
    scales = stored["weight_scale"].reshape(len(weights), -1, stored["weight_scale"].shape[-1])
    matrix, row, column = wrong.place
    height, width = format.weights.block_structure or (
        -(-weights.shape[1] // scales.shape[1]),
        weights.shape[2] // scales.shape[2],
    )
    scale = scales[matrix, row // height, column // width]
    if scale.itemsize == 1:
        return f"{weight}, scale {int(scale):#04x}"
    told = f"{weight}, scale {float(widened(scale[None], dtype)[0]):.6g}"
    if dtype == "F32" or storage_of(format) not in _ROUNDED_FIRST:
        return told
    return f"{told}; their quotient is rounded to {dtype} before it is rounded to a code"
