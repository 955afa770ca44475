"""Formats that a backend is asked for: every storage with its variants, and requests that it has to refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemegen.codecs import codec_of
from schemegen.formats import storage_fault
from schemegen.kernels.torch_check import torch_fault
from schemegen.scheme import Format

_TOKENS: Final = {"num_bits": 8, "strategy": "token", "dynamic": True, "observer": None}
_FP8_TOKENS: Final = {**_TOKENS, "type": "float"}
_FP8: Final = {"num_bits": 8, "type": "float"}
_FP4: Final = {"num_bits": 4, "type": "float"}
_INT4: Final = {"num_bits": 4, "group_size": 32}
_INT8: Final = {"num_bits": 8, "storage": "int-quantized"}
_GIVEN: Final[tuple[Mapping[str, Any], ...]] = (
    _INT4,
    {"num_bits": 4, "group_size": 128},
    {"num_bits": 4, "strategy": "channel"},
    {**_INT4, "symmetric": False},
    {**_INT4, "narrow_range": True},
    {**_INT4, "observer": "mse"},
    {**_INT4, "observer": "signed_mse"},
    {"num_bits": 8, "group_size": 128},
    {"num_bits": 8, "strategy": "channel"},
    {"num_bits": 3, "group_size": 64},
    {"weights": {"num_bits": 4, "group_size": 128}, "input_activations": _FP8_TOKENS, "storage": "pack-quantized"},
    {"weights": {"num_bits": 8, "strategy": "channel"}, "input_activations": _TOKENS},
    {**_INT8, "strategy": "channel"},
    {**_INT8, "group_size": 64},
    {**_INT8, "strategy": "tensor"},
    {"weights": {**_FP8, "strategy": "channel"}, "input_activations": _FP8_TOKENS},
    {**_FP8, "strategy": "tensor"},
    {**_FP8, "block_structure": [128, 128]},
    {**_FP4, "strategy": "tensor_group", "group_size": 16},
    {**_FP4, "group_size": 32, "scale_dtype": "uint8"},
    {**_FP8, "group_size": 32, "scale_dtype": "uint8"},
)
_STATIC: Final = {"num_bits": 8, "strategy": "tensor"}
#: No stored tensor holds the scales of such activations.
_UNHELD: Final[tuple[Mapping[str, Any], ...]] = (
    {"weights": _INT4, "input_activations": _STATIC, "storage": "pack-quantized"},
    {"weights": {"num_bits": 8, "strategy": "channel"}, "input_activations": _STATIC},
    {"weights": {**_FP8, "strategy": "tensor"}, "input_activations": {**_STATIC, "type": "float"}},
    {"weights": _INT4, "output_activations": _STATIC},
)
_ODD: Final[tuple[Mapping[str, Any], ...]] = (
    {**_INT4, "storage": "marlin-24"},
    {**_INT4, "num_bits": 1},
    {**_INT4, "num_bits": 16},
    {**_INT4, "observer": None},
    {**_INT4, "observer": "imatrix"},
    {**_INT4, "actorder": "group"},
    {**_INT4, "observer_kwargs": {"maxshrink": 0.5}},
    {**_INT4, "zp_dtype": "int8", "symmetric": False},
    {**_INT4, "dynamic": True},
    {**_FP8, "num_bits": 16, "strategy": "tensor"},
)


def _formats(given: tuple[Mapping[str, Any], ...]) -> tuple[Format, ...]:
    return tuple(Format.model_validate(fields) for fields in given)


def probe_formats() -> tuple[Format, ...]:
    """What a scheme may well ask for; without torch, what can be checked without it."""
    return tuple(format for format in _formats(_GIVEN) if is_checkable(format))


def unheld_formats() -> tuple[Format, ...]:
    """What no plan has room for: activations whose scales are stored."""
    return _formats(_UNHELD)


def odd_formats() -> tuple[Format, ...]:
    """What hardly any backend takes, and every one has to answer."""
    return _formats(_ODD)


def is_checkable(format: Format) -> bool:
    """Whether what is stored can be read here."""
    return storage_fault(format) is None and (torch_fault() is None or not codec_of(format).needs_torch())
