"""Writes a sharded safetensors checkpoint tensor by tensor, in memory bounded by one chunk, or as sparse files."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from bench.layout import ITEM_SIZES, Tensor
from bench.noise import values


def split_evenly(tensors: Iterable[Tensor], shards: int) -> list[list[Tensor]]:
    """Tensors in model order cut into `shards` runs of about equal bytes; a ValueError if one would be empty."""
    listed = list(tensors)
    total, seen = sum(t.nbytes for t in listed), 0
    runs: list[list[Tensor]] = [[] for _ in range(shards)]
    for tensor in listed:
        runs[min(shards - 1, (seen + tensor.nbytes // 2) * shards // total)].append(tensor)
        seen += tensor.nbytes
    if not all(runs):
        raise ValueError(f"{len(listed)} tensors do not fill {shards} shards; ask for fewer")
    return runs


def write_weights(folder: Path, runs: Sequence[Sequence[Tensor]], *, sparse: bool, float_total: bool) -> int:
    """Write every shard and the index; gives the tensor bytes. Sparse shards have headers and length, no data."""
    weight_map: dict[str, str] = {}
    for number, run in enumerate(runs, start=1):
        name = f"model-{number:05d}-of-{len(runs):05d}.safetensors"
        _write_shard(folder / name, run, sparse)
        weight_map |= {tensor.name: name for tensor in run}
    total = sum(tensor.nbytes for run in runs for tensor in run)
    metadata = {"total_size": float(total) if float_total else total}
    write_json(folder / "model.safetensors.index.json", {"metadata": metadata, "weight_map": weight_map})
    return total


def write_json(path: Path, content: object) -> None:
    """Indented JSON with a final newline, keys in their given order."""
    path.write_text(json.dumps(content, indent=2) + "\n")


def _write_shard(path: Path, run: Sequence[Tensor], sparse: bool) -> None:
    # The order of the safetensors library: wide items first, then by name.
    ordered = sorted(run, key=lambda t: (-ITEM_SIZES[t.dtype], t.name))
    with path.open("wb") as file:
        file.write(_header(ordered))
        if sparse:
            file.truncate(file.tell() + sum(t.nbytes for t in ordered))
        else:
            _write_values(file, ordered)


def _write_values(file: BinaryIO, ordered: Sequence[Tensor]) -> None:
    for tensor in ordered:
        for chunk in values(tensor):
            file.write(chunk.data)


def _header(ordered: Sequence[Tensor]) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for t in ordered:
        entries[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text
