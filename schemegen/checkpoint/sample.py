"""Samples: small deterministic checkpoints with a real architecture's names and layout, kept in the user's cache."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from schemegen.checkpoint.index import INDEX_NAME
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.sample_tensors import ExpertsAs, Stored, sample_shards
from schemegen.checkpoint.sample_texts import sample_texts
from schemegen.checkpoint.sample_values import Dtype, data_bytes, header_bytes, tensor_bytes
from schemegen.checkpoint.tree import find_files
from schemegen.data import cache_home
from schemegen.errors import CheckpointError, UnknownNameError

SAMPLE_NAMES: Final = ("qwen3.6-moe",)
_CONTENT_VERSION: Final = "2"
"""Goes up with every change to a sample's bytes, so that a cached older one is left alone."""
_MTIME_NS: Final = 1_760_000_000 * 10**9
"""Part of a source's identity, so the same for every copy of a sample."""


def open_sample(name: str) -> Checkpoint:
    """The sample called `name`, written to the cache if it is not there whole; UnknownNameError for others."""
    _require_known(name)
    return replace(open_local(_cached_folder(name)), model_id=f"sample:{name}")


def write_sample(
    name: str,
    folder: Path,
    *,
    experts: ExpertsAs = "fused",
    mtp_experts: ExpertsAs | None = None,
    dtype: Dtype = "BF16",
) -> None:
    """Write a sample into `folder`; all layouts hold the same numbers. The MTP block follows the trunk by default."""
    _require_known(name)
    shards = sample_shards(experts, mtp_experts or experts)
    for file, text in _texts(shards, dtype).items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    for shard, tensors in shards.items():
        with (folder / shard).open("wb") as stream:
            stream.write(header_bytes(tensors, dtype))
            stream.writelines(tensor_bytes(tensor, dtype) for tensor in tensors)
    for file in _sizes(shards, dtype):
        os.utime(folder / file, ns=(_MTIME_NS, _MTIME_NS))


def _require_known(name: str) -> None:
    if name not in SAMPLE_NAMES:
        raise UnknownNameError("sample", name, SAMPLE_NAMES)


def _texts(shards: Mapping[str, list[Stored]], dtype: Dtype) -> dict[str, bytes]:
    """Every file that is no shard."""
    texts = {**sample_texts(dtype), INDEX_NAME: _index_text(shards, dtype)}
    return {name: text.encode() for name, text in texts.items()}


def _index_text(shards: Mapping[str, list[Stored]], dtype: Dtype) -> str:
    """An index whose total size is a float, as the Hub's is."""
    weight_map = {tensor.name: shard for shard, tensors in shards.items() for tensor in tensors}
    total = float(sum(data_bytes(tensors, dtype) for tensors in shards.values()))
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return json.dumps(index, indent=2) + "\n"


def _sizes(shards: Mapping[str, list[Stored]], dtype: Dtype) -> dict[str, int]:
    """Bytes of every file of a sample, told without making a value."""
    texts = {name: len(text) for name, text in _texts(shards, dtype).items()}
    return texts | {
        shard: len(header_bytes(tensors, dtype)) + data_bytes(tensors, dtype) for shard, tensors in shards.items()
    }


def _cached_folder(name: str) -> Path:
    """The sample's folder in the cache or, where that cannot be written, one that lasts as long as the process."""
    try:
        if home := cache_home():
            folder = home / "samples" / f"{name}-{_CONTENT_VERSION}"
            if not _is_whole(folder):
                _rebuild(name, folder)
            return folder
    except OSError:
        pass
    temporary = Path(tempfile.mkdtemp(prefix="schemegen-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    write_sample(name, temporary)
    return temporary


def _is_whole(folder: Path) -> bool:
    """Whether exactly the sample's files are there, each with its size and time."""
    if not folder.is_dir():
        return False
    try:
        found = find_files(folder.resolve())
    except CheckpointError:
        return False
    expected = _sizes(sample_shards("fused", "fused"), "BF16")
    return found == expected and all((folder / file).stat().st_mtime_ns == _MTIME_NS for file in expected)


def _rebuild(name: str, folder: Path) -> None:
    """Put a whole sample in place of what stands there, unless another process does so first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / ".lock"):
        if _is_whole(folder):
            return
        temporary = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder.parent))
        try:
            write_sample(name, temporary)
            _remove(folder)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
