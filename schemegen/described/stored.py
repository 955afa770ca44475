"""The modules of a quantized checkpoint by what is stored of them, and whether that is what a format stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

from schemegen.checkpoint.model import TensorHeader
from schemegen.formats import WEIGHT_DTYPES, Piece, pieces, storage_fault, storage_of
from schemegen.scheme import Format

_PACKED, _PLAIN = "weight_packed", "weight"
#: Last words that only quantized modules have, and caches that engines scale.
_WORDS: Final = re.compile(
    r"weight_(packed|scale|shape|zero_point|global_scale|g_idx)"
    r"|(input|output|[qkv]|kv)_(scale|zero_point|global_scale)"
)
#: Kimi's files have the shape in 32 bits, compressed-tensors' in 64.
_ANY_DTYPE: Final = frozenset({"weight_shape"})


Layout = tuple[tuple[str, str, tuple[int, ...]], ...]
"""Last word, dtype and shape of all that is stored of a module."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A module that is stored quantized: its name, and its tensors by last word."""

    name: str
    tensors: Mapping[str, TensorHeader]

    @property
    def main(self) -> TensorHeader:
        """What holds the codes."""
        return self.tensors.get(_PACKED) or self.tensors[_PLAIN]

    @property
    def layout(self) -> Layout:
        """What is stored, the same for modules of one format and shape."""
        return tuple(sorted((last, header.dtype, header.shape) for last, header in self.tensors.items()))


@dataclass(slots=True)
class Contents:
    """A checkpoint's quantized modules, and the tensors that are stored as they are."""

    quantized: list[Stored] = field(default_factory=list)
    plain: list[TensorHeader] = field(default_factory=list)


def contents_of(tensors: Iterable[TensorHeader]) -> Contents:
    """Sort tensors into quantized modules and others; scales of caches belong to neither."""
    modules: dict[str, dict[str, TensorHeader]] = {}
    rest: dict[str, TensorHeader] = {}
    for tensor in tensors:
        module, _, last = tensor.name.rpartition(".")
        if _WORDS.fullmatch(last):
            modules.setdefault(module, {})[last] = tensor
        else:
            rest[tensor.name] = tensor
    found = Contents()
    for module, words in modules.items():
        weight = rest.get(f"{module}.{_PLAIN}")
        if weight is not None and any(word.startswith(_PLAIN) for word in words):
            words[_PLAIN] = rest.pop(weight.name)
        if _PACKED in words or _PLAIN in words:
            found.quantized.append(Stored(module, words))
    found.plain.extend(rest.values())
    return found


def matrix_shape(stored: Stored, format: Format) -> tuple[int, int] | None:
    """[rows, columns] of the weight that was quantized, if it was to this format; None where no matrix is stored."""
    main = stored.main
    if len(main.shape) != 2:
        return None
    rows, columns = main.shape
    if _PACKED not in stored.tensors:
        return rows, columns
    bits = {"I32": 32, "U8": 8}.get(main.dtype, 0)
    return rows, columns * bits // format.weights.num_bits


def misfit(stored: Stored, format: Format) -> str | None:
    """Why what is stored is not what the format stores, or None."""
    if fault := storage_fault(format):
        return fault
    shape = matrix_shape(stored, format)
    if shape is None or not prod(shape):
        return f"{stored.main.name} of shape {list(stored.main.shape)} is no matrix"
    scale = stored.tensors.get("weight_scale")
    dtype = scale.dtype if scale is not None and scale.dtype in WEIGHT_DTYPES else WEIGHT_DTYPES[0]
    faults = (_piece_misfit(stored, piece) for piece in pieces(format, dtype, *shape))
    return next(filter(None, faults), None) or _surplus(stored, format)


def _piece_misfit(stored: Stored, piece: Piece) -> str | None:
    found = stored.tensors.get(piece.suffix)
    if found is None:
        return f"{stored.name}.{piece.suffix} is missing"
    same_dtype = found.dtype == piece.dtype or piece.suffix in _ANY_DTYPE
    if same_dtype and _squeezed(found.shape) == _squeezed(piece.shape):
        return None
    return f"{found.name} is {found.dtype} {list(found.shape)}, where {piece.dtype} {list(piece.shape)} is due"


def _surplus(stored: Stored, format: Format) -> str | None:
    """Packed codes where none are due, or zero points of symmetric weights."""
    expected = _PACKED if "pack" in storage_of(format) else _PLAIN
    surplus = [last for last in (_PACKED, _PLAIN) if last in stored.tensors and last != expected]
    surplus += ["weight_zero_point"] if format.weights.symmetric and "weight_zero_point" in stored.tensors else []
    return f"{stored.name}.{surplus[0]} is stored, where none is due" if surplus else None


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without dimensions of one: a scale a row is written as [rows] and as [rows, 1]."""
    return tuple(extent for extent in shape if extent != 1)
