"""Every shard equals the native backend's, byte for byte: what it computes is a cross-check of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from schemegen_llmcompressor import LlmCompressorRtn, backend
from schemegen_llmcompressor.parts import parts_of

import schemegen
from schemegen import Backend
from schemegen.backends.base import Job
from schemegen.backends.guard import GuardedBackend
from schemegen.backends.native_rtn import NativeRtn
from schemegen.checkpoint.sample import write_sample
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Chunk, chunks_of
from schemegen.planner.tensors import Output
from schemegen.runner.execute import run
from schemegen.runner.journal import Journal
from schemegen.writer import FileSink

MakeJob = Callable[..., Job]
Experts = Literal["fused", "separate"]
Dtype = Literal["BF16", "F16", "F32"]
TOKEN = "{num_bits: 8, type: %s, strategy: token, dynamic: true}"
#: Every storage, scale and search, over the layers of one plan; model_free_ptq runs once a format.
MANY_FORMATS = f"""
schema_version: 1
name: many-formats
summary: A format a layer and role
formats:
  int4-asymmetric: {{num_bits: 4, group_size: 32, symmetric: false}}
  int3-asymmetric: {{num_bits: 3, group_size: 32, symmetric: false}}
  int4-mse: {{num_bits: 4, group_size: 32, observer: mse}}
  mxfp4: {{num_bits: 4, type: float, group_size: 32}}
  mxfp8: {{num_bits: 8, type: float, group_size: 32, scale_dtype: uint8}}
  fp8-block: {{num_bits: 8, type: float, block_structure: [128, 128]}}
  fp8-tensor: {{num_bits: 8, type: float, strategy: tensor}}
  fp8-channel: {{num_bits: 8, type: float, strategy: channel, input_activations: {TOKEN % "float"}}}
  w8a8: {{num_bits: 8, strategy: channel, input_activations: {TOKEN % "int"}}}
  w4afp8: {{num_bits: 4, group_size: 64, storage: pack-quantized, input_activations: {TOKEN % "float"}}}
  int8-tensor: {{num_bits: 8, strategy: tensor, storage: int-quantized}}
  int8-group: {{num_bits: 8, group_size: 64}}
  int4-channel: {{num_bits: 4, strategy: channel}}
  nvfp4: {{num_bits: 4, type: float, strategy: tensor_group, group_size: 16}}
  fp8-mse: {{num_bits: 8, type: float, strategy: channel, observer: mse}}
policy:
  - {{role: routed_expert, layers: "0", use: int4-asymmetric}}
  - {{role: routed_expert, layers: "1", use: int4-mse}}
  - {{role: routed_expert, layers: "2", use: mxfp4}}
  - {{role: routed_expert, layers: "3", use: fp8-block}}
  - {{role: routed_expert, part: mtp, use: w4afp8}}
  - {{role: shared_expert, layers: "0", use: int3-asymmetric}}
  - {{role: shared_expert, layers: "1", use: fp8-tensor}}
  - {{role: shared_expert, layers: "2", use: int8-tensor}}
  - {{role: shared_expert, layers: "3", use: int8-group}}
  - {{role: shared_expert, part: mtp, use: fp8-mse}}
  - {{role: linear_attention, layers: "0", use: mxfp8}}
  - {{role: linear_attention, layers: "1", use: fp8-channel}}
  - {{role: linear_attention, use: w8a8}}
  - {{role: attention, part: mtp, use: int4-channel}}
  - {{role: attention, use: nvfp4}}
"""


def assert_same_shards(tmp_path: Path, scheme: str | Path, source: Path, *policies: str) -> None:
    """Apply the scheme with both backends and compare every shard and the index."""
    for name in ("llmcompressor-rtn", "native-rtn"):
        schemegen.apply(scheme, source, tmp_path / name, policies=policies, backend=name, device="cpu", jobs=2)
    assert_equal_shards(tmp_path / "llmcompressor-rtn", tmp_path / "native-rtn")


def assert_equal_shards(left: Path, right: Path) -> None:
    """Shards and index are there in both, byte for byte."""
    ours, theirs = ({path.name: path.read_bytes() for path in sorted(f.glob("*.safetensors*"))} for f in (left, right))
    assert len(ours) > 1
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("experts", "mtp_experts", "dtype", "policies"),
    [
        ("fused", "fused", "BF16", ()),
        ("fused", "separate", "F32", ()),
        ("separate", "fused", "BF16", ()),
        ("separate", "separate", "F16", ("keep-mtp",)),
    ],
)
def test_kimi_k2_int4_on_every_layout_and_dtype(
    tmp_path: Path, experts: Experts, mtp_experts: Experts, dtype: Dtype, policies: tuple[str, ...]
) -> None:
    source = tmp_path / "model"
    write_sample("qwen3.6-moe", source, experts=experts, mtp_experts=mtp_experts, dtype=dtype)
    _scramble(source, dtype)
    assert_same_shards(tmp_path, "kimi-k2-int4", source, *policies)


def _scramble(source: Path, dtype: Dtype) -> None:
    """Awkward numbers into the first tensor of experts: random finite bits, from subnormal to huge, and zeros."""
    unsigned, lowest_exponent_bit = {"BF16": ("u2", 1 << 7), "F16": ("u2", 1 << 10), "F32": ("u4", 1 << 23)}[dtype]
    tensor = next(tensor for tensor in schemegen.plan("kimi-k2-int4", source).tensors if tensor.format is not None)
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 256, tensor.source.nbytes, np.uint8).view(unsigned)
    # An exponent without its lowest bit is never the one of NaN and infinity.
    bits &= ~bits.dtype.type(lowest_exponent_bit)
    bits[: len(bits) // 8] = 0
    with (source / tensor.source.file).open("r+b") as file:
        file.seek(tensor.source.offset)
        file.write(bits.tobytes())


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("experts", "dtype"), [("fused", "BF16"), ("separate", "F32")])
def test_every_format(tmp_path: Path, job: MakeJob, experts: Experts, dtype: Dtype) -> None:
    source, scheme = tmp_path / "model", tmp_path / "many-formats.yaml"
    write_sample("qwen3.6-moe", source, experts=experts, mtp_experts=experts, dtype=dtype)
    scheme.write_text(MANY_FORMATS)
    made = job(source, scheme)
    assert len(made.plan.formats_used) == 15
    for guest in (LlmCompressorRtn(), NativeRtn()):
        _write(guest, made, tmp_path / guest.name)
    assert_equal_shards(tmp_path / "llmcompressor-rtn", tmp_path / "native-rtn")


def _write(guest: Backend, job: Job, folder: Path) -> None:
    """The shards of a run, whatever engines can be told of the plan."""
    folder.mkdir()
    sink, journal = FileSink(folder), Journal(folder)
    run(job.plan, job.checkpoint, GuardedBackend(guest, "a test's"), sink, journal, scratch=job.scratch)
    sink.commit()
    sink.close()
    journal.close()


@pytest.mark.usefixtures("in_process")
def test_two_formats_in_one_plan_cut_into_many_parts(
    sample: Path, two_formats: Path, job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tensor a part: several parts of one shard, and both formats in one shard."""
    monkeypatch.setattr(backend, "parts_of", partial(parts_of, part_bytes=1))
    made = job(sample, two_formats)
    assert len(parts_of(made.plan, 1)) > 10
    ours, theirs = (_filled(guest, made) for guest in (LlmCompressorRtn(), NativeRtn()))
    assert ours == theirs
    assert len(ours) == sum(len(tensor.outputs) for tensor in made.plan.tensors if tensor.format) * 2 // 3


def _filled(guest: Backend, job: Job) -> dict[str, bytes]:
    """What a backend hands out for every chunk of a job, by output; weight_shape is the house's to fill."""
    guest.prepare(job)
    found: dict[str, bytes] = {}
    for tensor in job.plan.tensors:
        for chunk in chunks_of(tensor, job.plan.format_of(tensor), 1 << 16) if tensor.format else ():
            out = {piece.name.rpartition(".")[2]: _buffer(chunk, piece) for piece in tensor.pieces[:2]}
            guest.quantize_chunk(job, chunk, out)
            for number in range(chunk.shape[0]):
                first = (chunk.first[0] + number) * len(tensor.pieces)
                for piece in tensor.outputs[first : first + 2]:
                    block = out[piece.name.rpartition(".")[2]][number]
                    found[piece.name] = found.get(piece.name, b"") + block.tobytes()
    return found


def _buffer(chunk: Chunk, piece: Output) -> NDArray[np.unsignedinteger[Any]]:
    return np.empty((*chunk.shape[:2], piece.shape[-1]), f"u{DTYPE_BITS[piece.dtype] // 8}")


def test_in_a_process_of_its_own_nothing_but_json_on_stdout(
    tmp_path: Path, sample: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("llmcompressor")
    from schemegen.cli import main

    output = tmp_path / "llmcompressor-rtn"
    arguments = ["apply", "kimi-k2-int4", str(sample), "-o", str(output), "--backend", "llmcompressor-rtn"]
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--device", "cpu", "--json"])
    captured = capfd.readouterr()
    assert (left.value.code, json.loads(captured.out)["status"]) == (0, "written")
    assert "Split" not in captured.err
    assert not (tmp_path / "llmcompressor-rtn.partial").exists()
    schemegen.apply("kimi-k2-int4", sample, tmp_path / "native-rtn", device="cpu")
    assert_equal_shards(output, tmp_path / "native-rtn")
