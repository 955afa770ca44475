"""Checkpoints on disk, for all tests."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import schemegen
from bench.loopback_hub import LoopbackHub
from schemegen.checkpoint.sample import write_sample
from schemegen.digests import digest, file_digest
from schemegen.manifest import Tile, read_manifest, write_manifest
from schemegen.planner import Chunk
from schemegen.runner.buffers import Buffers, Outputs

WriteShard = Callable[..., Path]
WriteCheckpoint = Callable[..., Path]
_NOBODY = "http://127.0.0.1:9"
_HOMES: list[str] = []


def pytest_configure() -> None:
    """No test, and no process that one starts, reaches the Hub or a person's own cache and token."""
    _HOMES.append(tempfile.mkdtemp(prefix="schemegen-tests-"))
    for name in [name for name in os.environ if name.startswith(("HF_", "HUGGINGFACE_", "HUGGING_FACE_"))]:
        del os.environ[name]
    # Threads of torch that wait by spinning take the processor from those that work, fivefold on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.update(HF_HOME=_HOMES[0], HF_ENDPOINT=_NOBODY, HF_HUB_DISABLE_TELEMETRY="1")


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    while _HOMES:
        shutil.rmtree(_HOMES.pop(), ignore_errors=True)


@pytest.fixture
def hub_server(tmp_path: Path) -> Iterator[LoopbackHub]:
    """A Hub on this machine, empty; processes reach it with `hub_env`."""
    with LoopbackHub().running() as server:
        yield server


@pytest.fixture
def hub_env(hub_server: LoopbackHub, tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose Hub is `hub_server` and whose caches are the test's own."""
    homes = {"HF_HOME": str(tmp_path / "hf"), "SCHEMEGEN_CACHE": str(tmp_path / "schemegen")}
    return {**os.environ, **homes, "HF_ENDPOINT": hub_server.url}


@pytest.fixture
def hub(hub_server: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoopbackHub:
    """The server, with the client that this process has imported turned to it; nobody waits between tries."""
    from huggingface_hub import constants

    from schemegen.checkpoint.hub import retries

    monkeypatch.setattr(constants, "ENDPOINT", hub_server.url)
    template = hub_server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 30)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 30)
    monkeypatch.setenv("HF_ENDPOINT", hub_server.url)
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "schemegen"))
    monkeypatch.setattr(retries, "WAITS", (0.01, 0.01))
    return hub_server


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
def forge() -> Callable[[Path], None]:
    """Makes the manifest of an output true again after a change, as somebody who wants to be believed would."""

    def run(output: Path) -> None:
        manifest = read_manifest(output)
        shards = {file: _tiles(output / file, tiles) for file, tiles in manifest.shards.items()}
        files = {name: file_digest(output / name) for name in manifest.files}
        write_manifest(output, manifest.model_copy(update={"shards": shards, "files": files}))

    return run


def _tiles(path: Path, tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
    raw, end, found = path.read_bytes(), 0, []
    for tile in tiles:
        found.append(Tile(tile.nbytes, digest([raw[end : end + tile.nbytes]])))
        end += tile.nbytes
    return tuple(found)


@dataclass
class Steps:
    """What backends were handed in one go: how often blocks of a matrix's rows, and how often several chunks."""

    blocks: int = 0
    batches: int = 0

    def take(self, chunks: Sequence[Chunk]) -> None:
        """Count one step."""
        self.blocks += any(chunk.shape[1] < chunk.tensor.matrix_shape[0] for chunk in chunks)
        self.batches += len(chunks) > 1


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Chunks of some rows of the sample's matrices, and batches of few of those; the steps that are then taken."""
    monkeypatch.setattr("schemegen.planner.chunks.CHUNK_BYTES", 20_000)
    monkeypatch.setattr("schemegen.runner.lanes.BATCH_BYTES", 60_000)
    steps, make = Steps(), Buffers.outputs

    def outputs(self: Buffers, *chunks: Chunk) -> Outputs:
        steps.take(chunks)
        return make(self, *chunks)

    monkeypatch.setattr(Buffers, "outputs", outputs)
    return steps


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
