"""The scratch space that is asked for is what a run takes, and counts before a run starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from schemegen_llmcompressor import LlmCompressorRtn, scratch
from schemegen_llmcompressor.parts import Part

import schemegen
from schemegen import OutputError, Plan, UnsupportedError
from schemegen.architectures.base import ExpertLayout
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.backends.base import Job
from schemegen.checkpoint.model import Remote
from schemegen.runner import produce
from schemegen.runner.space import check_space

NVFP4 = """
schema_version: 1
name: nvfp4
summary: NVFP4 of one role
formats: {{nvfp4: {{num_bits: 4, type: float, strategy: tensor_group, group_size: 16}}}}
policy: [{{role: {role}, use: nvfp4}}]
"""
MakeJob = Callable[..., Job]


class Usage(NamedTuple):
    """As shutil.disk_usage gives it."""

    total: int
    used: int
    free: int


@pytest.mark.usefixtures("in_process")
def test_scratch_takes_what_is_asked_for_and_no_more(sample: Path, two_formats: Path, job: MakeJob) -> None:
    made = job(sample, two_formats)
    needs = LlmCompressorRtn().needs(made.plan)
    LlmCompressorRtn().prepare(made)
    taken = sum(path.stat().st_size for path in made.scratch.rglob("*"))
    quantized = sum(tensor.nbytes for tensor in made.plan.tensors if tensor.format is not None)
    assert quantized < taken <= needs.scratch_bytes < 2 * quantized


def test_it_counts_in_the_disk_check(
    sample: Path, tmp_path: Path, forbid_worker: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for the native backend's run is not enough for this one's."""
    forbid_worker()
    plan = schemegen.plan("kimi-k2-int4", sample)
    free = plan.totals.bytes_out + LlmCompressorRtn().needs(plan).scratch_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free, 0, free))
    with pytest.raises(OutputError, match="make room"):
        schemegen.apply("kimi-k2-int4", sample, tmp_path / "out", backend="llmcompressor-rtn", device="cpu")
    assert not (tmp_path / "out.partial").exists()
    assert schemegen.apply("kimi-k2-int4", sample, tmp_path / "out", device="cpu").status == "written"


def test_a_finished_result_needs_no_room_again(
    sample: Path,
    tmp_path: Path,
    zeros: Callable[[Plan], None],
    forbid_worker: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that was stopped with its scratch finished goes on where there is room for the rest alone."""
    zeros(schemegen.plan("kimi-k2-int4", sample))
    finish = scratch.Scratch.finish
    needed: list[int] = []

    def interrupted(self: scratch.Scratch, made: dict[str, Any], parts: Iterable[Part]) -> None:
        finish(self, made, parts)
        raise KeyboardInterrupt

    def noted(output: Path, folder: Path, bytes_needed: int, remote: Remote | None) -> None:
        needed.append(bytes_needed)
        check_space(output, folder, bytes_needed, remote)

    def apply() -> schemegen.Result:
        return schemegen.apply("kimi-k2-int4", sample, tmp_path / "out", backend="llmcompressor-rtn", device="cpu")

    with monkeypatch.context() as patched:
        patched.setattr(scratch.Scratch, "finish", interrupted)
        patched.setattr(produce, "check_space", noted)
        with pytest.raises(KeyboardInterrupt):
            apply()
    forbid_worker()
    files = (path for name in ("model", "scratch") for path in (tmp_path / "out.partial" / name).rglob("*"))
    free = needed[0] - sum(path.stat().st_blocks * 512 for path in files if path.is_file())
    for room in (free - 1, free):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, room=room: Usage(0, 0, room))
        with pytest.raises(OutputError, match="make room") if room < free else nullcontext():
            assert apply().status == "written"


def test_a_stack_that_llm_compressor_names_otherwise_is_refused_before_work(sample: Path, job: MakeJob) -> None:
    rules = tuple(replace(rule, experts=_renamed(rule.experts)) for rule in QWEN3_5_MOE.rules)
    plan = job(sample, architecture=replace(QWEN3_5_MOE, rules=rules)).plan
    with pytest.raises(UnsupportedError, match=r"does not take \S+_proj apart as the plan does"):
        LlmCompressorRtn().needs(plan)


@pytest.mark.parametrize(
    ("role", "told"),
    [("routed_expert", "of model.language_model.layers.0.mlp.experts.0.gate_proj"), ("attention", None)],
)
def test_nvfp4_of_layers_that_it_does_not_fuse_is_refused_before_work(
    sample: Path, job: MakeJob, tmp_path: Path, role: str, told: str | None
) -> None:
    (tmp_path / "nvfp4.yaml").write_text(NVFP4.format(role=role))
    plan = job(sample, tmp_path / "nvfp4.yaml").plan
    with pytest.raises(UnsupportedError, match=f"makes the global scale {told} over other") if told else nullcontext():
        LlmCompressorRtn().needs(plan)


def _renamed(layout: ExpertLayout | None) -> ExpertLayout | None:
    return layout and replace(layout, template="{module}.{projection}_proj.{expert}")
