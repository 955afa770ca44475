"""Whole runs with torch behind the machinery of a GPU: the finished folder is that of a run on the CPU."""

from __future__ import annotations

import itertools
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import schemegen
from schemegen.backends.native_rtn import NativeRtn
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import CheckpointError, OutputError
from schemegen.planner import Action
from schemegen.scheme import Scheme

torch = pytest.importorskip("torch")

TORCH = "torch:cpu"
Layout = Literal["fused", "separate"]
Dtype = Literal["BF16", "F16", "F32"]


def scheme(num_bits: int, group_size: int | None = 32) -> Scheme:
    strategy = {"strategy": "channel"} if group_size is None else {"group_size": group_size}
    head = {"schema_version": 1, "name": "of-a-test", "summary": "a scheme of a test", "policy": ["experts-only"]}
    return Scheme.model_validate(head | {"formats": {"int": {"num_bits": num_bits, **strategy}}})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def applied(chosen: Scheme, source: Path, output: Path, device: str) -> dict[str, bytes]:
    schemegen.apply(chosen, source, output, device=device, jobs=2)
    return contents(output)


@pytest.mark.parametrize("experts", ["fused", "separate"])
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_the_folder_does_not_depend_on_the_device(experts: Layout, dtype: Dtype, tmp_path: Path) -> None:
    write_sample("qwen3.6-moe", tmp_path / "model", experts=experts, dtype=dtype)
    chosen = scheme(4)
    assert applied(chosen, tmp_path / "model", tmp_path / "torch", TORCH) == applied(
        chosen, tmp_path / "model", tmp_path / "cpu", "cpu"
    )


@pytest.mark.parametrize(("num_bits", "group_size"), [(4, 32), (4, None), (8, 16), (8, None)])
def test_nor_does_it_with_batches_of_many_chunks(
    num_bits: int, group_size: int | None, sample_folder: Path, tmp_path: Path, small_steps: Any
) -> None:
    chosen = scheme(num_bits, group_size)
    made = applied(chosen, sample_folder, tmp_path / "torch", TORCH)
    assert small_steps.batches > 10
    assert small_steps.blocks > 10
    assert made == applied(chosen, sample_folder, tmp_path / "cpu", "cpu")


@pytest.mark.parametrize("num_bits", [2, 3, 5, 6, 7])
def test_formats_without_a_cpu_kernel_are_made_and_verified(num_bits: int, sample_folder: Path, tmp_path: Path) -> None:
    made = applied(scheme(num_bits), sample_folder, tmp_path / "cpu", "cpu")
    assert made == applied(scheme(num_bits), sample_folder, tmp_path / "torch", TORCH)
    report = schemegen.verify(tmp_path / "cpu", sample_folder)
    assert any("quantized matrices" in check for check in report.checks)
    # Not torch.__version__, which tells the build too.
    assert f'"torch":"{version("torch")}"' in made["schemegen.json"].decode().replace(" ", "").replace("\n", "")


@pytest.mark.parametrize(("first", "then"), [("cpu", TORCH), (TORCH, "cpu"), (TORCH, TORCH)])
def test_a_run_goes_on_on_another_device(
    first: str, then: str, sample_folder: Path, tmp_path: Path, small_steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = applied(scheme(4), sample_folder, tmp_path / "whole", "cpu")
    calls = itertools.count()

    def failing(self: NativeRtn, *arguments: Any) -> None:
        if next(calls) == 5:
            raise KeyboardInterrupt
        quantize(self, *arguments)

    quantize = NativeRtn.quantize
    monkeypatch.setattr(NativeRtn, "quantize", failing)
    with pytest.raises(KeyboardInterrupt):
        schemegen.apply(scheme(4), sample_folder, tmp_path / "out", device=first, jobs=2)
    result = schemegen.apply(scheme(4), sample_folder, tmp_path / "out", device=then, jobs=2)
    assert 0 < result.resumed_bytes < result.bytes_in
    assert contents(tmp_path / "out") == whole


def test_a_bad_weight_in_a_batch_is_named_with_its_place(source: Path, tmp_path: Path, small_steps: Any) -> None:
    plan = schemegen.plan(scheme(4), source)
    tensor = [tensor for tensor in plan.tensors if tensor.action is Action.QUANTIZE][-1]
    place = tuple(length - 2 for length in tensor.source.shape)
    shard = source / tensor.source.file
    values = np.memmap(shard, np.uint16, "r+", tensor.source.offset, tensor.source.shape)
    values[place] = 0x7FC0
    values.flush()
    told = []
    for device in ("cpu", TORCH):
        with pytest.raises(CheckpointError) as caught:
            schemegen.apply(scheme(4), source, tmp_path / "out", device=device)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert f"{tensor.name} holds NaN or infinity at {list(place)}" in told[0]


def test_a_device_without_memory_stops_the_run_and_the_next_one_goes_on(
    sample_folder: Path, tmp_path: Path, small_steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantize, calls = NativeRtn.quantize, itertools.count()

    def failing(self: NativeRtn, *arguments: Any) -> None:
        if next(calls) == 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        quantize(self, *arguments)

    monkeypatch.setattr(NativeRtn, "quantize", failing)
    with pytest.raises(OutputError, match="torch:cpu has not enough free memory; run the same command again"):
        schemegen.apply(scheme(4), sample_folder, tmp_path / "out", device=TORCH)
    result = schemegen.apply(scheme(4), sample_folder, tmp_path / "out", device=TORCH)
    assert result.resumed_bytes > 0
    assert contents(tmp_path / "out") == applied(scheme(4), sample_folder, tmp_path / "whole", "cpu")
