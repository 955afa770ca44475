"""Checkpoints on disk, for all tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.checkpoint.sample import write_sample

WriteShard = Callable[..., Path]
WriteCheckpoint = Callable[..., Path]


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample qwen3.6-moe, written once; nobody may change it."""
    folder = tmp_path_factory.mktemp("sample") / "qwen3.6-moe"
    write_sample("qwen3.6-moe", folder)
    return folder


@pytest.fixture(scope="session")
def finished(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a whole run over the sample; nobody may change it."""
    output = tmp_path_factory.mktemp("finished") / "out"
    schemegen.apply("kimi-k2-int4", sample_folder, output)
    return output


@pytest.fixture
def source(sample_folder: Path, tmp_path: Path) -> Path:
    """A source of the test's own."""
    return Path(shutil.copytree(sample_folder, tmp_path / "model"))


@pytest.fixture(scope="session")
def write_shard() -> WriteShard:
    """A factory: path, {name: (dtype, shape, data)} → the path, now a safetensors file with the data in that order."""

    def write(path: Path, tensors: Mapping[str, tuple[str, Sequence[int], bytes]]) -> Path:
        entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        position = 0
        for name, (dtype, shape, data) in tensors.items():
            end = position + len(data)
            entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
            position = end
        header = json.dumps(entries).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join([len(header).to_bytes(8, "little"), header, *(t[2] for t in tensors.values())]))
        return path

    return write


@pytest.fixture(scope="session")
def write_checkpoint(write_shard: WriteShard) -> WriteCheckpoint:
    """A factory: folder, {name: (dtype, shape, data)}, config, shards={file: [names]} → the folder, a checkpoint.

    Without `shards` all tensors lie in `model.safetensors`, and there is no index.
    """

    def write(
        folder: Path,
        tensors: Mapping[str, tuple[str, Sequence[int], bytes]],
        config: Mapping[str, Any],
        shards: Mapping[str, Sequence[str]] | None = None,
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        for shard, names in (shards or {"model.safetensors": list(tensors)}).items():
            write_shard(folder / shard, {name: tensors[name] for name in names})
        if shards is not None:
            index = {
                "metadata": {"total_size": sum(len(data) for _, _, data in tensors.values())},
                "weight_map": {name: shard for shard, names in shards.items() for name in names},
            }
            (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
        return folder

    return write
