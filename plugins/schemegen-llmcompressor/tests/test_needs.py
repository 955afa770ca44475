"""The scratch space that is asked for is what a run takes, and counts before a run starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from schemegen_llmcompressor import LlmCompressorRtn

import schemegen
from schemegen import OutputError, UnsupportedError
from schemegen.architectures.base import ExpertLayout
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.backends.base import Job

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
    assert needs.source_folder
    assert quantized < taken <= needs.scratch_bytes < 2 * quantized


def test_it_counts_in_the_disk_check(
    sample: Path, tmp_path: Path, forbid_worker: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for the native backend's run is not enough for this one's."""
    forbid_worker()
    plan = schemegen.plan("kimi-k2-int4", sample)
    scratch = LlmCompressorRtn().needs(plan).scratch_bytes
    free = plan.totals.bytes_out + scratch
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free, 0, free))
    with pytest.raises(OutputError, match="make room"):
        schemegen.apply("kimi-k2-int4", sample, tmp_path / "out", backend="llmcompressor-rtn", device="cpu")
    assert not (tmp_path / "out.partial").exists()
    assert schemegen.apply("kimi-k2-int4", sample, tmp_path / "out", device="cpu").status == "written"


def test_a_stack_that_llm_compressor_names_otherwise_is_refused_before_work(sample: Path, job: MakeJob) -> None:
    rules = tuple(replace(rule, experts=_renamed(rule.experts)) for rule in QWEN3_5_MOE.rules)
    plan = job(sample, architecture=replace(QWEN3_5_MOE, rules=rules)).plan
    with pytest.raises(UnsupportedError, match=r"does not take \S+_proj apart as the plan does"):
        LlmCompressorRtn().needs(plan)


def _renamed(layout: ExpertLayout | None) -> ExpertLayout | None:
    return layout and replace(layout, template="{module}.{projection}_proj.{expert}")
