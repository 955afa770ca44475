"""What the worker is told, as JSON: the tensors of every part, formats in compressed-tensors' words, and devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemegen.peer import scheme_words, searches
from schemegen_llmcompressor.parts import Part

if TYPE_CHECKING:
    from schemegen import Format
    from schemegen.checkpoint.model import Checkpoint
    from schemegen.planner import Plan


def order_of(
    plan: Plan, checkpoint: Checkpoint, parts: Sequence[Part], result: Path, devices: Sequence[str]
) -> dict[str, Any]:
    """One run of model_free_ptq a format; a worker thread a device, since a part each is what memory is counted by."""
    return {
        "result": str(result),
        "runs": [
            _run(checkpoint, plan.scheme.formats[name], [part for part in parts if part.format == name], devices)
            for name in dict.fromkeys(part.format for part in parts)
        ],
    }


def _run(checkpoint: Checkpoint, format: Format, parts: Iterable[Part], devices: Sequence[str]) -> dict[str, Any]:
    parts = list(parts)
    return {
        "scheme": scheme_words(format),
        # Its search of the clip ratio stops elsewhere on a GPU.
        "devices": ["cpu"] if searches(format) else list(devices),
        "shards": {part.file: str(checkpoint.path(part.shard).resolve()) for part in parts},
        "weight_map": {tensor.name: part.file for part in parts for tensor in part.tensors},
    }
