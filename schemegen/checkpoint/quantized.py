"""Tells whether a checkpoint is quantized already, by its config, its tensors' names, or their dtypes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from schemegen.checkpoint.model import Checkpoint, TensorHeader
from schemegen.errors import UnsupportedError

CONFIG_KEYS: Final = frozenset({"quantization_config", "compression_config", "quantization"})

# A last word that only quantized weights have, whatever stands before it: compressed-tensors, ModelOpt, FP8 releases,
# GPTQ and AWQ, gpt-oss, bitsandbytes.
_TELLING: Final = re.compile(
    r"""
    weight_(packed|shape|zero_point|g_idx|scale|scales|scale_inv|scale_\d|global_scale)
    | (input|output|[qkv]|kv|[qkv]_proj_output)_(scale|zero_point|global_scale)
    | qweight | qzeros | g_idx
    | (nested_)?(absmax|quant_map) | SCB
    | .*_proj(_bias)?_(blocks|scales?|scale_inv|packed|qweight|qzeros)
    """,
    re.VERBOSE,
)
# A scale counts only beside what it scales: a router's `scale` or `per_expert_scale` is a weight like any other.
_BESIDE: Final = re.compile(r"(?:(.+)_)?(?:scale|scales|scale_inv|blocks|zero_points?|zeros)")
_LOW: Final = re.compile(r"F8_.*|F6_.*|F4")
_INTEGER: Final = re.compile(r"[IU]\d+")
_WEIGHT: Final = re.compile(r"weight|.*_proj|[wW][123]")


def refuse_quantized(checkpoint: Checkpoint) -> None:
    """UnsupportedError, naming what is quantized, unless the checkpoint is in full precision."""
    if found := find_quantization(checkpoint):
        raise UnsupportedError(
            f"{checkpoint.model_id} is quantized already: {found}; "
            "reading quantized sources is not offered yet: give the dequantized model instead"
        )


def find_quantization(checkpoint: Checkpoint) -> str | None:
    """What shows that the checkpoint is quantized, in words, or None."""
    for path in _config_paths(checkpoint.config):
        return f"config.json has {path}"
    names = {tensor.name for tensor in checkpoint.tensors}
    return next(filter(None, (_finding(tensor, names) for tensor in checkpoint.tensors)), None)


def _config_paths(config: Mapping[str, Any]) -> Iterator[str]:
    """The dotted path of every quantization block that says something, at any depth."""
    pending: list[tuple[str, Any]] = [("", config)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, list):
            pending.extend((f"{path}.{position}", item) for position, item in enumerate(value))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                inner = f"{path}.{key}" if path else key
                if key in CONFIG_KEYS and item:
                    yield inner
                pending.append((inner, item))


def _finding(tensor: TensorHeader, names: Collection[str]) -> str | None:
    module, _, last = tensor.name.rpartition(".")
    if _TELLING.fullmatch(last) or ".quant_state" in tensor.name or _scales_neighbour(module, last, names):
        return f"tensor {tensor.name!r} belongs to a quantized weight"
    if _LOW.fullmatch(tensor.dtype):
        return f"tensor {tensor.name!r} is stored as {tensor.dtype}"
    if _INTEGER.fullmatch(tensor.dtype) and len(tensor.shape) > 1 and _WEIGHT.fullmatch(last):
        return f"weight {tensor.name!r} is stored as {tensor.dtype}"
    return None


def _scales_neighbour(module: str, last: str, names: Collection[str]) -> bool:
    """Whether `X_scale` stands beside `X` or `X.weight`, or a bare `scale` beside `weight`."""
    found = _BESIDE.fullmatch(last)
    if found is None:
        return False
    prefix = f"{module}." if module else ""
    stem = found[1]
    if stem is None:
        return f"{prefix}weight" in names
    return f"{prefix}{stem}" in names or f"{prefix}{stem}.weight" in names
