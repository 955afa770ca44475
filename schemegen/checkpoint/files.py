"""Sorts what lies beside the indexed shards: files that travel byte for byte, and weights that the index leaves out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.model import SideFile, Unindexed
from schemegen.errors import CheckpointError

SAFETENSORS: Final = ".safetensors"
_WEIGHT_ENDINGS: Final = (
    SAFETENSORS,
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
    files: Mapping[str, int], taken: Collection[str], header: Callable[[str], Header]
) -> tuple[tuple[SideFile, ...], tuple[Unindexed, ...]]:
    """Side files and unindexed weights of `files` (bytes by name), by name, without `taken`; `header` reads one."""
    side, unindexed = [], []
    for name in sorted(files.keys() - set(taken)):
        if name.lower().endswith(_WEIGHT_ENDINGS):
            unindexed.append(Unindexed(name, files[name], _holds_mtp(name, header)))
        else:
            side.append(SideFile(name, files[name]))
    return tuple(side), tuple(unindexed)


def _holds_mtp(name: str, header: Callable[[str], Header]) -> bool:
    """Whether a safetensors file's header names a tensor of an MTP block; a file nobody reads may be damaged."""
    if not name.lower().endswith(SAFETENSORS):
        return False
    try:
        tensors = header(name).tensors
    except CheckpointError:
        return False
    return any(_is_mtp(tensor.name) for tensor in tensors)


def _is_mtp(name: str) -> bool:
    return name.startswith("mtp.") or ".mtp." in name or "mtp_block" in name
