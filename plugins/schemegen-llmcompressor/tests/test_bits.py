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
from schemegen.backends.native_rtn import NativeRtn
from schemegen.checkpoint.sample import write_sample
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Chunk, chunks_of
from schemegen.planner.tensors import Output

MakeJob = Callable[..., Job]
Experts = Literal["fused", "separate"]
Dtype = Literal["BF16", "F16", "F32"]
ONE_FORMAT = """
schema_version: 1
name: {name}
summary: Routed experts in one format
formats: {{format: {fields}}}
policy: experts-only
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
        ("separate", "separate", "F16", ()),
        ("fused", "separate", "F32", ()),
        ("separate", "fused", "BF16", ()),
        ("fused", "fused", "F16", ("keep-mtp",)),
        ("separate", "separate", "F32", ("keep-mtp",)),
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
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("int8-group", "{num_bits: 8, strategy: group, group_size: 64}"),
        ("int4-channel", "{num_bits: 4, strategy: channel}"),
        ("int3-group", "{num_bits: 3, strategy: group, group_size: 32}"),
    ],
)
def test_other_formats(tmp_path: Path, sample: Path, name: str, fields: str) -> None:
    scheme = tmp_path / "scheme.yaml"
    scheme.write_text(ONE_FORMAT.format(name=name, fields=fields))
    assert_same_shards(tmp_path, scheme, sample)


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
