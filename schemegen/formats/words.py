"""Formats in words, for lists, cards and reference pages, and the order in which people look through schemes."""

from __future__ import annotations

import re
from typing import Final

from schemegen.formats.rounding import observer_of
from schemegen.scheme import Format, Quantization, Scheme

_BLOCK_KINDS: Final = {("tensor_group", "float8_e4m3fn"): "NVFP", ("group", "uint8"): "MXFP"}
_OBSERVERS: Final = {
    "minmax": "the extremes of its weights",
    "mse": "a search of the clip ratio for the least error of the matrix",
    "signed_mse": "a search over scales of both signs for the least squared error of the group",
}
_KEPT: Final = "not quantized"


def kind(values: Quantization) -> str:
    """What numbers are: INT4, FP8, NVFP4, MXFP8."""
    if values.type == "int":
        return f"INT{values.num_bits}"
    return f"{_BLOCK_KINDS.get((values.strategy, values.scale_dtype or ''), 'FP')}{values.num_bits}"


def short(format: Format) -> str:
    """A format in a few words: "INT4 g32", "FP8 128x128, FP8 activations"."""
    weights, activations = format.weights, format.input_activations
    words = [kind(weights), _shape(weights), "" if weights.symmetric else "asymmetric"]
    words += ["narrow range"] if weights.narrow_range else []
    words += [] if observer_of(weights) == "minmax" else [observer_of(weights)]
    told = " ".join(filter(None, words))
    return told if activations is None else f"{told}, {kind(activations)} activations"


def weights_in_words(format: Format) -> str:
    """What weights become: "INT4, a scale for every 32 weights of a row, symmetric"."""
    weights = format.weights
    grid = "symmetric" if weights.symmetric else "with zero points"
    least = 1 - 2 ** (weights.num_bits - 1)
    narrow = f", codes {least} to {-least}" if weights.narrow_range else ""
    return f"{kind(weights)}, {_scales(weights)}, {grid}{narrow}"


def activations_in_words(values: Quantization | None) -> str:
    """What becomes of activations: "FP8, a scale for every token, found while serving"."""
    if values is None:
        return _KEPT
    found = "found while serving" if values.dynamic else "stored"
    return f"{kind(values)}, {_scales(values, 'value')}, {found}"


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


def _shape(values: Quantization) -> str:
    if values.type == "float" and kind(values)[:2] in ("NV", "MX"):
        return ""
    if values.block_structure is not None:
        return "x".join(map(str, values.block_structure))
    if values.group_size is not None:
        return f"g{values.group_size}"
    return {"channel": "by row", "tensor": "by matrix"}.get(values.strategy, values.strategy)


def _scales(values: Quantization, item: str = "weight") -> str:
    if values.block_structure is not None:
        return f"a scale for every block of {'x'.join(map(str, values.block_structure))}"
    if values.group_size is not None:
        whole = ", and one for the layer" if values.strategy == "tensor_group" else ""
        return f"a scale for every {values.group_size} {item}s of a row{whole}"
    places = {"channel": "row", "tensor": "matrix" if item == "weight" else "layer"}
    return f"a scale for every {places.get(values.strategy, values.strategy)}"
