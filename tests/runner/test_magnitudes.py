"""Largest magnitudes of matrices and of layers: whole, exact, measured once, and blamed on the right tensor."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import schemegen
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import CheckpointError, UnsupportedError
from schemegen.planner import Chunk, Plan, PlannedTensor, plan_chunks
from schemegen.runner import magnitudes, reading
from schemegen.runner.magnitudes import Magnitudes
from schemegen.scheme import Scheme

Array = npt.NDArray[Any]
Layout = Literal["fused", "separate"]
Dtype = Literal["BF16", "F16", "F32"]

FORMATS: dict[str, dict[str, Any]] = {
    "nvfp4": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
    "fp8": {"num_bits": 8, "type": "float", "strategy": "tensor"},
    "int4": {"num_bits": 4, "group_size": 32},
}
ROLES = ["routed_expert", "shared_expert", "attention", "linear_attention", "lm_head"]


def scheme(format: str) -> Scheme:
    head = {"schema_version": 1, "name": "of-a-test", "summary": "a scheme of a test"}
    return Scheme.model_validate(
        head | {"formats": {format: FORMATS[format]}, "policy": [{"role": ROLES, "use": format}]}
    )


def planned(format: str, source: Path) -> Plan:
    return schemegen.plan(scheme(format), source)


@contextmanager
def opened(plan: Plan, source: Path) -> Iterator[dict[str, int]]:
    files = {file: os.open(source / file, os.O_RDONLY) for file in plan.files}
    try:
        yield files
    finally:
        for descriptor in files.values():
            os.close(descriptor)


def chunks_of(plan: Plan) -> list[Chunk]:
    return [chunk for tensor in plan.tensors if tensor.format is not None for chunk in plan_chunks(plan, tensor)]


def bits_of(source: Path, tensor: PlannedTensor) -> Array:
    """[matrices, rows, columns]."""
    data = (source / tensor.source.file).read_bytes()[tensor.source.offset :][: tensor.source.nbytes]
    item = "u4" if tensor.source.dtype == "F32" else "u2"
    return np.frombuffer(data, item).reshape(tensor.matrices, *tensor.matrix_shape)


def values_of(bits: Array, dtype: str) -> Array:
    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(bits.view(np.float16 if dtype == "F16" else np.float32), np.float32)


def own(source: Path, plan: Plan) -> dict[str, float]:
    """The largest magnitude of every module, by numpy over whole tensors."""
    found: dict[str, float] = {}
    for tensor in plan.tensors:
        if tensor.format is not None:
            tops = np.abs(values_of(bits_of(source, tensor), tensor.source.dtype)).reshape(tensor.matrices, -1).max(-1)
            found.update(zip(tensor.modules, map(float, tops), strict=True))
    return found


def modules_of(chunk: Chunk) -> tuple[str, ...]:
    return chunk.tensor.modules[chunk.first[0] : chunk.first[0] + chunk.shape[0]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The sample with a magnitude of its own in every matrix of attention, for BF16 bits."""
    write_sample("qwen3.6-moe", tmp_path / "model", experts="separate")
    for number, tensor in enumerate(planned("nvfp4", tmp_path / "model").tensors):
        if tensor.format is not None:
            put(tmp_path / "model", tensor, number % tensor.source.shape[0], 0x4000 + number | (number % 2) << 15)
    return tmp_path / "model"


def put(source: Path, tensor: PlannedTensor, index: int, bits: int) -> None:
    """Overwrite one BF16 or F16 item."""
    with (source / tensor.source.file).open("r+b") as stream:
        stream.seek(tensor.source.offset + 2 * index)
        stream.write(bits.to_bytes(2, "little"))


@pytest.mark.parametrize("at_hand", [False, True])
@pytest.mark.parametrize("chunk_bytes", [8 << 20, 20_000])
def test_a_matrix_takes_the_largest_of_its_layer(
    model: Path, at_hand: bool, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schemegen.planner.chunks.CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(magnitudes, "_BLOCK", 7000)
    plan = planned("nvfp4", model)
    expected = own(model, plan)
    layers: dict[str, float] = {}
    for module, top in expected.items():
        layers[plan.layer_of(module)] = max(top, layers.get(plan.layer_of(module), 0))
    assert sum(layers[plan.layer_of(module)] > top for module, top in expected.items()) > 50
    with opened(plan, model) as sources:
        found = Magnitudes(plan, sources)
        for chunk in chunks_of(plan):
            bits = bits_of(model, chunk.tensor)[chunk.first[0] :][: chunk.shape[0]]
            shared = found.of(chunk, bits[:, chunk.first[1] :][:, : chunk.shape[1]] if at_hand else None)
            assert shared is not None
            assert shared.dtype == np.float32
            assert shared.tolist() == [layers[plan.layer_of(module)] for module in modules_of(chunk)]


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("experts", ["fused", "separate"])
def test_or_its_own_where_the_format_has_one_scale_a_matrix(dtype: Dtype, experts: Layout, tmp_path: Path) -> None:
    write_sample("qwen3.6-moe", tmp_path / "model", experts=experts, dtype=dtype)
    plan = planned("fp8", tmp_path / "model")
    expected = own(tmp_path / "model", plan)
    assert len(set(expected.values())) > 10 or dtype == "BF16"
    with opened(plan, tmp_path / "model") as sources:
        found = Magnitudes(plan, sources)
        for chunk in chunks_of(plan):
            shared = found.of(chunk)
            assert shared is not None
            assert shared.tolist() == [expected[module] for module in modules_of(chunk)]


def test_nothing_is_measured_for_other_formats(model: Path) -> None:
    plan = planned("int4", model)
    found = Magnitudes(plan, {})
    assert all(found.of(chunk) is None for chunk in chunks_of(plan))


def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(tensor, bytes) of every read from here on."""
    seen: list[tuple[str, int]] = []

    def fill(sources: Any, tensor: PlannedTensor, offset: int, view: memoryview) -> None:
        seen.append((tensor.name, len(view)))
        reading.fill(sources, tensor, offset, view)

    monkeypatch.setattr(magnitudes, "fill", fill)
    return seen


def test_blocks_of_rows_measure_their_matrix_once_whatever_the_threads(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schemegen.planner.chunks.CHUNK_BYTES", 20_000)
    plan = planned("nvfp4", model)
    (head,) = (tensor for tensor in plan.tensors if tensor.name == "lm_head.weight")
    chunks = list(plan_chunks(plan, head))
    assert len(chunks) > 10
    seen = reads(monkeypatch)
    start = threading.Barrier(8)
    with opened(plan, model) as sources:
        found = Magnitudes(plan, sources)

        def ask(number: int) -> set[float]:
            start.wait()
            answers = (found.of(chunk) for chunk in chunks[number::8])
            return {float(answer[0]) for answer in answers if answer is not None}

        with ThreadPoolExecutor(8) as pool:
            answers = set.union(*pool.map(ask, range(8)))
    assert answers == {own(model, plan)["lm_head"]}
    assert sum(nbytes for _, nbytes in seen) == head.source.nbytes


def test_only_what_is_not_at_hand_is_read_and_only_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("nvfp4", model)
    attention = [t for t in plan.tensors if ".layers.3.self_attn." in t.name and t.format is not None]
    names = {tensor.name.split(".")[-2]: tensor for tensor in attention}
    seen = reads(monkeypatch)
    with opened(plan, model) as sources:
        found = Magnitudes(plan, sources)
        for name, expected in (("v_proj", {"q_proj", "k_proj"}), ("q_proj", set()), ("o_proj", set())):
            seen.clear()
            (chunk,) = plan_chunks(plan, names[name])
            assert found.of(chunk, bits_of(model, names[name])) is not None
            assert {tensor.split(".")[-2] for tensor, _ in seen} == expected


def test_a_layer_lies_in_several_shards(model: Path) -> None:
    plan = planned("nvfp4", model)
    # One member is moved: to the same place of a copied shard, where it is larger.
    (moved,) = (t for t in plan.tensors if t.name.endswith("layers.3.self_attn.k_proj.weight"))
    shutil.copyfile(model / moved.source.file, model / "elsewhere.safetensors")
    put(model, replace(moved, source=moved.source._replace(file="elsewhere.safetensors")), 3, 0x4F00)
    there = replace(moved, source=moved.source._replace(file="elsewhere.safetensors"))
    tensors = tuple(there if tensor is moved else tensor for tensor in plan.tensors)
    split = replace(plan, tensors=tensors, files=(*plan.files, "elsewhere.safetensors"))
    (query,) = (t for t in split.tensors if t.name.endswith("layers.3.self_attn.q_proj.weight"))
    with opened(split, model) as sources:
        (chunk,) = plan_chunks(split, query)
        shared = Magnitudes(split, sources).of(chunk)
        assert shared is not None
        assert shared.tolist() == [2.0**31]


@pytest.mark.parametrize("at_hand", [False, True])
@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0, 0xFFFF])
def test_the_tensor_that_holds_the_nan_is_named(
    model: Path, bits: int, at_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magnitudes, "_BLOCK", 1 << 12)
    plan = planned("nvfp4", model)
    names = {
        t.name.split(".")[-2]: t for t in plan.tensors if ".layers.3.self_attn." in t.name and t.format is not None
    }
    rows, columns = names["q_proj"].matrix_shape
    put(model, names["q_proj"], (rows - 1) * columns + 7, bits)
    asked = names["q_proj" if at_hand else "v_proj"]
    with opened(plan, model) as sources:
        found = Magnitudes(plan, sources)
        (chunk,) = plan_chunks(plan, asked)
        for _ in range(2):
            with pytest.raises(CheckpointError, match=rf"layers\.3\.self_attn\.q_proj.*\[{rows - 1}, 7\]"):
                found.of(chunk, bits_of(model, asked) if at_hand else None)


@pytest.mark.parametrize("at_hand", [False, True])
def test_in_a_stack_of_experts_with_its_place(sample_folder: Path, tmp_path: Path, at_hand: bool) -> None:
    source = Path(shutil.copytree(sample_folder, tmp_path / "model"))
    plan = planned("nvfp4", source)
    tensor = next(t for t in plan.tensors if t.name.endswith("experts.gate_up_proj") and t.format is not None)
    experts, rows, columns = tensor.source.shape
    # The last row is up_proj's, and gate_proj's chunk needs it.
    put(source, tensor, ((experts - 2) * rows + rows - 1) * columns + 11, 0x7FC0)
    (chunk,) = plan_chunks(plan, tensor)
    with opened(plan, source) as sources:
        bits = bits_of(source, tensor) if at_hand else None
        with pytest.raises(CheckpointError, match=rf"gate_up_proj holds .* at \[{experts - 2}, {rows - 1}, 11\]"):
            Magnitudes(plan, sources).of(chunk, bits)


def test_a_shard_that_ends_early_is_told(model: Path) -> None:
    plan = planned("nvfp4", model)
    (tensor,) = (t for t in plan.tensors if t.name == "lm_head.weight")
    with opened(plan, model) as sources:
        os.truncate(model / tensor.source.file, tensor.source.offset + 100)
        (chunk,) = plan_chunks(plan, tensor)
        with pytest.raises(CheckpointError, match="ends early"):
            Magnitudes(plan, sources).of(chunk)


def test_members_of_different_dtypes_are_refused_before_anything_is_read(model: Path) -> None:
    plan = planned("nvfp4", model)
    (odd,) = (t for t in plan.tensors if t.name.endswith("layers.3.self_attn.v_proj.weight"))
    other = replace(odd, source=odd.source._replace(dtype="F16"))
    mixed = replace(plan, tensors=tuple(other if tensor is odd else tensor for tensor in plan.tensors))
    with pytest.raises(UnsupportedError, match=r"qkv_proj.*\(BF16\).*v_proj.*\(F16\).*keep them with a policy"):
        Magnitudes(mixed, {})


def test_dtypes_may_differ_where_no_layer_is_shared(model: Path) -> None:
    plan = planned("fp8", model)
    (odd,) = (t for t in plan.tensors if t.name.endswith("layers.3.self_attn.v_proj.weight"))
    other = replace(odd, source=odd.source._replace(dtype="F16"))
    Magnitudes(replace(plan, tensors=tuple(other if t is odd else t for t in plan.tensors)), {})
