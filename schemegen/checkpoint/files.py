"""Sorts what lies beside the indexed shards: files that travel byte for byte, and weights that the index leaves out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from schemegen.checkpoint.headers import read_header
from schemegen.checkpoint.model import SideFile, Unindexed
from schemegen.errors import CheckpointError

_WEIGHT_ENDINGS: Final = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".gguf",
    ".onnx",
    ".h5",
    ".msgpack",
    # The index of weights that do not travel names files that are not there.
    ".index.json",
)


def sort_files(
    root: Path, files: Mapping[str, int], taken: Collection[str]
) -> tuple[tuple[SideFile, ...], tuple[Unindexed, ...]]:
    """Side files and unindexed weights of `files` (bytes by name), by name, without the names in `taken`."""
    side, unindexed = [], []
    for name in sorted(files.keys() - set(taken)):
        if name.lower().endswith(_WEIGHT_ENDINGS):
            unindexed.append(Unindexed(name, files[name], _holds_mtp(root / name)))
        else:
            side.append(SideFile(name, files[name]))
    return tuple(side), tuple(unindexed)


def _holds_mtp(path: Path) -> bool:
    """Whether a safetensors file's header names a tensor of an MTP block; a file nobody reads may be damaged."""
    if path.suffix.lower() != ".safetensors":
        return False
    try:
        header = read_header(path, path.name)
    except CheckpointError:
        return False
    return any(_is_mtp(tensor.name) for tensor in header.tensors)


def _is_mtp(name: str) -> bool:
    return name.startswith("mtp.") or ".mtp." in name or "mtp_block" in name
