"""Checkpoints, jobs, and llm-compressor within this process, where one import serves all tests."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schemegen_llmcompressor import backend as backend_module
from schemegen_llmcompressor import worker
from schemegen_llmcompressor.parts import parts_of

from schemegen import Plan, Weights
from schemegen.architectures.base import Architecture
from schemegen.backends.base import Job
from schemegen.catalog import load_catalog
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.sample import write_sample
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Chunk, make_plan, resolve_rules
from schemegen.planner.tensors import Output
from schemegen.progress import Silent

MakeJob = Callable[..., Job]
WriteResult = Callable[[Path, Plan, Callable[[Output], Output | None]], None]
SCHEME = "kimi-k2-int4"
#: Attention's matrices and layer 0's experts in INT8 by channel, all other experts in INT4 by group.
TWO_FORMATS = """
schema_version: 1
name: two-formats
summary: Two formats in one plan
formats:
  int4: {num_bits: 4, strategy: group, group_size: 32}
  int8: {num_bits: 8, strategy: channel}
policy:
  - {role: attention, use: int8}
  - {role: routed_expert, part: text, layers: "0", use: int8}
  - {role: routed_expert, use: int4}
"""


def pytest_configure() -> None:
    """Threads of torch that wait by spinning take the processor from those that work, fivefold on a busy machine."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with fused experts in BF16; nobody may change it."""
    folder = tmp_path_factory.mktemp("sample") / "model"
    write_sample("qwen3.6-moe", folder)
    return folder


@pytest.fixture
def two_formats(tmp_path: Path) -> Path:
    """A scheme file with two formats."""
    path = tmp_path / "two-formats.yaml"
    path.write_text(TWO_FORMATS)
    return path


@pytest.fixture
def job(tmp_path: Path) -> MakeJob:
    """A factory: source, scheme, architecture → a job with a scratch folder of the test's own."""

    def make(source: Path, scheme: str | Path = SCHEME, architecture: Architecture | None = None) -> Job:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        checkpoint = open_checkpoint(str(source), None)

        def read(*chunks: Chunk) -> Weights:
            (chunk,) = chunks
            dtype = chunk.tensor.source.dtype
            path, unsigned = checkpoint.path(chunk.tensor.source.file), f"u{DTYPE_BITS[dtype] // 8}"
            bits = np.fromfile(path, unsigned, count=prod(chunk.shape), offset=chunk.offset)
            return Weights(bits.reshape(chunk.shape), dtype)

        return Job(planned(checkpoint, scheme, architecture), checkpoint, scratch, "cpu", ("cpu",), Silent(), read)

    return make


def planned(checkpoint: Checkpoint, scheme: str | Path, architecture: Architecture | None) -> Plan:
    """The plan alone, whatever engines can be told of it."""
    catalog = load_catalog()
    found = catalog.scheme(scheme)
    rules = resolve_rules(found, catalog.policy, [])
    return make_plan(checkpoint, architecture or catalog.architecture_of(checkpoint.config), found, rules)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The worker's work without its process: llm-compressor takes seconds to import."""
    pytest.importorskip("llmcompressor")

    def carry_out(order: dict[str, Any], order_file: Path, log: Path, tick: Callable[[], None]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            worker.quantize(json.loads(json.dumps(order)), tmp_path_factory.mktemp("links"))
        tick()

    monkeypatch.setattr(backend_module, "carry_out", carry_out)


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """llm-compressor would log to the streams of the test that imported it."""
    os.environ["LLM_COMPRESSOR_LOG_DISABLED"] = "true"


@pytest.fixture
def forbid_worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, starting a worker fails the test."""

    def carry_out(*_: object) -> None:
        raise AssertionError("a worker was started")

    return lambda: monkeypatch.setattr(backend_module, "carry_out", carry_out)


@pytest.fixture(scope="session")
def write_result() -> WriteResult:
    """A factory: folder, plan, change → a result of bytes of 1, with the plan's outputs as `change` gives them."""

    def write(folder: Path, plan: Plan, change: Callable[[Output], Output | None]) -> None:
        folder.mkdir(exist_ok=True)
        for part in parts_of(plan):
            entries: dict[str, Any] = {}
            end = 0
            for output in filter(None, map(change, part.outputs)):
                begin, end = end, end + output.nbytes
                entries[output.name] = {"dtype": output.dtype, "shape": output.shape, "data_offsets": [begin, end]}
            header = json.dumps(entries).encode()
            (folder / part.file).write_bytes(len(header).to_bytes(8, "little") + header + b"\1" * end)

    return write


@pytest.fixture
def zeros(monkeypatch: pytest.MonkeyPatch, write_result: WriteResult) -> Callable[[Plan], None]:
    """A factory: plan → from the call on, a worker writes such a result for it."""

    def use(plan: Plan) -> None:
        def carry_out(order: dict[str, Any], *_: object) -> None:
            write_result(Path(order["result"]), plan, lambda output: output)

        monkeypatch.setattr(backend_module, "carry_out", carry_out)

    return use
