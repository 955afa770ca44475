"""What the worker is told, as JSON: the tensors of every part, formats in compressed-tensors' words, and devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schemegen_llmcompressor.parts import Part

if TYPE_CHECKING:
    from schemegen import Format
    from schemegen.checkpoint.model import Checkpoint
    from schemegen.planner import Plan
    from schemegen.scheme import Quantization

#: The fields of QuantizationArgs that decide the bits; all others stay at their defaults, or are refused.
_FIELDS: Final = ("num_bits", "type", "strategy", "group_size", "symmetric", "dynamic")


def order_of(
    plan: Plan, checkpoint: Checkpoint, parts: Sequence[Part], result: Path, devices: Sequence[str]
) -> dict[str, Any]:
    """One run of model_free_ptq a format; a worker thread a device, since a part each is what memory is counted by."""
    return {
        "result": str(result),
        "devices": list(devices),
        "workers": len(devices),
        "runs": [
            _run(checkpoint, plan.scheme.formats[name], [part for part in parts if part.format == name])
            for name in dict.fromkeys(part.format for part in parts)
        ],
    }


def _run(checkpoint: Checkpoint, format: Format, parts: Iterable[Part]) -> dict[str, Any]:
    parts = list(parts)
    return {
        "weights": arguments(format.weights),
        "shards": {part.file: str(checkpoint.path(part.shard).resolve()) for part in parts},
        "weight_map": {tensor.name: part.file for part in parts for tensor in part.tensors},
    }


def arguments(weights: Quantization) -> dict[str, Any]:
    """The keywords of compressed-tensors' QuantizationArgs."""
    return {name: getattr(weights, name) for name in _FIELDS} | {"observer": weights.observer or "minmax"}
