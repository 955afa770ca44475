"""Formats in words, for lists, cards and reference pages, and the order in which people look through schemes."""

from __future__ import annotations

import re
from typing import Final

from schemegen.formats.rounding import observer_of
from schemegen.formats.storage import float_storage_of, storage_of
from schemegen.scheme import Format, Quantization, Scheme

# Kinds whose groups have a size of their own.
_MICROSCALED: Final = {"nvfp4-pack-quantized": "NVFP4", "mxfp4-pack-quantized": "MXFP4", "mxfp8-quantized": "MXFP8"}
_OBSERVERS: Final = {
    "minmax": "the extremes of its weights",
    "mse": "a search of the clip ratio for the least error of the matrix",
    "signed_mse": "a search over scales of both signs for the least squared error of the group",
}
_KEPT: Final = "not quantized"


def kind_of(format: Format) -> str:
    """What weights become: INT4, FP8, NVFP4, MXFP8."""
    return _kind(format.weights, storage_of(format))


def in_short(format: Format) -> str:
    """A format in a few words: "INT4 g32", "FP8 128x128, FP8 activations"."""
    weights, activations = format.weights, format.input_activations
    words = [kind_of(format), _shape(format), "" if weights.symmetric else "asymmetric"]
    words += ["narrow range"] if weights.narrow_range else []
    words += [] if observer_of(weights) == "minmax" else [observer_of(weights)]
    told = " ".join(filter(None, words))
    return told if activations is None else f"{told}, {_activation_kind(activations)} activations"


def weights_in_words(format: Format) -> str:
    """What weights become: "INT4, a scale for every 32 weights of a row, symmetric"."""
    weights = format.weights
    grid = "symmetric" if weights.symmetric else "with zero points"
    least = 1 - 2 ** (weights.num_bits - 1)
    narrow = f", codes {least} to {-least}" if weights.narrow_range else ""
    return f"{kind_of(format)}, {_scales(weights)}, {grid}{narrow}"


def activations_in_words(values: Quantization | None) -> str:
    """What becomes of activations: "FP8, a scale for every token, found while serving"."""
    if values is None:
        return _KEPT
    found = "found while serving" if values.dynamic else "stored"
    return f"{_activation_kind(values)}, {_scales(values, 'value')}, {found}"


def observer_in_words(weights: Quantization) -> str:
    """What a scale is made from."""
    observer = observer_of(weights)
    return f"{observer}: {_OBSERVERS[observer]}" if observer in _OBSERVERS else observer


def bits_in_words(format: Format, unquantized: int) -> str:
    """Bits of weights and activations: "W4A16"; `unquantized` are those of activations that are left alone."""
    activations = unquantized if format.input_activations is None else format.input_activations.num_bits
    return f"W{format.weights.num_bits}A{activations}"


def reading_order(scheme: Scheme) -> tuple[int, int, bool, list[str | int]]:
    """A key that sorts schemes: one format before mixes, few bits before many, integers before floats, then by name."""
    weights = [format.weights for format in scheme.formats.values()]
    words = [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", scheme.name)]
    return len(weights), min(found.num_bits for found in weights), weights[0].type == "float", words


def _kind(values: Quantization, storage: str) -> str:
    sort = {"int": "INT", "float": "FP"}[values.type]
    return _MICROSCALED.get(storage) or f"{sort}{values.num_bits}"


def _activation_kind(values: Quantization) -> str:
    return _kind(values, "" if values.type == "int" else float_storage_of(values))


def _shape(format: Format) -> str:
    values = format.weights
    if storage_of(format) in _MICROSCALED:
        return ""
    if values.block_structure is not None:
        return "x".join(map(str, values.block_structure))
    if values.group_size is not None:
        return f"g{values.group_size}"
    return {"channel": "per channel", "tensor": "per tensor"}.get(values.strategy, values.strategy)


def _scales(values: Quantization, item: str = "weight") -> str:
    if values.block_structure is not None:
        return f"a scale for every block of {'x'.join(map(str, values.block_structure))}"
    if values.group_size is not None:
        whole = ", and one for the layer" if values.strategy == "tensor_group" else ""
        return f"a scale for every {values.group_size} {item}s of a row{whole}"
    places = {"channel": "row", "tensor": "matrix" if item == "weight" else "layer"}
    return f"a scale for every {places.get(values.strategy, values.strategy)}"
