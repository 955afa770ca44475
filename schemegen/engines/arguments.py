"""The arguments of a group as compressed-tensors' QuantizationArgs reads them: its fields, its names, no others."""

from __future__ import annotations

from typing import Any, Final

from schemegen.formats import MINMAX, SIGNED_MSE, scale_dtype_of
from schemegen.scheme import Format, Quantization

_FIELDS: Final = (
    "actorder",
    "block_structure",
    "dynamic",
    "group_size",
    "num_bits",
    "observer",
    "observer_kwargs",
    "strategy",
    "symmetric",
    "type",
)
#: llm-compressor's names. It has none for scales of both signs; to a reader those are scales like any other.
_OBSERVERS: Final = {"mse": "memoryless_mse", SIGNED_MSE: "memoryless_mse"}


def weight_arguments(format: Format) -> dict[str, Any]:
    """What is written of the weights; `scale_dtype` only where scales have a dtype of their own: vLLM needs it."""
    weights = format.weights
    # Newer than Kimi's files: written only where they say something.
    newer = {"scale_dtype": scale_dtype_of(format), "zp_dtype": weights.zp_dtype}
    return {
        **_known(weights),
        "observer": _OBSERVERS.get(weights.observer or MINMAX, weights.observer),
        **{name: _torch(value) for name, value in newer.items() if value is not None},
    }


def activation_arguments(values: Quantization | None) -> dict[str, Any] | None:
    """What is written of activations: nothing observes those that are quantized as they come."""
    if values is None:
        return None
    newer = {"scale_dtype": values.scale_dtype, "zp_dtype": values.zp_dtype}
    observed = {} if values.dynamic is False else {"observer": None}
    return {**_known(values), **observed, **{name: _torch(value) for name, value in newer.items() if value is not None}}


def _known(values: Quantization) -> dict[str, Any]:
    dumped = values.model_dump(mode="json")
    return {name: dumped[name] for name in _FIELDS}


def _torch(dtype: str) -> str:
    """A dtype as compressed-tensors writes it."""
    return dtype if dtype.startswith("torch.") else f"torch.{dtype}"
