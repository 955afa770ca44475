"""The table of all schemes: a good output has no fault, a spoiled one is told by name, and so is who else agrees."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import schemegen
from bench import accept, oracle
from bench.accept import _line, _told, _written, built_in
from bench.compare import stored_tensors
from bench.lost import DifferentError
from bench.workspace import Workspace
from schemegen import Plan, Scheme
from schemegen.checkpoint import open_checkpoint

NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def spoiled(folder: Path, copy: Path, suffix: str) -> Path:
    """A copy with one bit of the first such tensor turned."""
    shutil.copytree(folder, copy)
    name, stored = next(item for item in stored_tensors(copy).items() if item[0].endswith(suffix))
    content = bytearray((copy / stored.file).read_bytes())
    content[stored.start] ^= 1
    (copy / stored.file).write_bytes(content)
    assert name
    return copy


@pytest.fixture
def plan(sample_folder: Path) -> Plan:
    return schemegen.plan("kimi-k2-int4", sample_folder)


def test_all_built_in_schemes_are_in_it() -> None:
    assert {"kimi-k2-int4", "kimi-k2-int4-exact"} <= set(built_in())


def test_what_is_written_as_planned_is_counted(plan: Plan, finished: Path) -> None:
    assert _written(plan, finished) == f"{plan.totals.bytes_out:,}"
    first, *others = plan.tensors
    changed = replace(first, outputs=(first.outputs[0]._replace(dtype="F32"), *first.outputs[1:]))
    with pytest.raises(DifferentError, match="is not written as planned"):
        _written(replace(plan, tensors=(changed, *others)), finished)


def test_a_fault_is_a_cell() -> None:
    def fails() -> str:
        raise DifferentError("a | b\nand so on\nand on")

    assert _told(fails) == ("**no**: a / b and so on", False)
    assert _told(lambda: "good") == ("good", True)
    assert _line(["a", "b"]) == "| a | b |"


def test_model_free_ptq_agrees_and_a_wrong_scale_does_not(
    plan: Plan, sample_folder: Path, finished: Path, tmp_path: Path
) -> None:
    pytest.importorskip("schemegen_llmcompressor")
    pytest.importorskip("llmcompressor")
    checkpoint = open_checkpoint(str(sample_folder), None)
    assert oracle.agreeing(plan, checkpoint, finished, tmp_path / "1") == {"int4": "model_free_ptq"}
    wrong = spoiled(finished, tmp_path / "wrong", "weight_scale")
    with pytest.raises(DifferentError, match="weight_scale: other bits"):
        oracle.agreeing(plan, checkpoint, wrong, tmp_path / "2")


@pytest.mark.parametrize(("suffix", "is_wrong"), [("", False), ("weight_scale", True), ("weight_global_scale", True)])
def test_the_compressor_of_nvfp4_is_asked_where_other_layers_are_fused(
    sample_folder: Path, tmp_path: Path, suffix: str, is_wrong: bool
) -> None:
    pytest.importorskip("schemegen_llmcompressor")
    pytest.importorskip("compressed_tensors")
    head = {"schema_version": 1, "name": "nvfp4", "summary": "NVFP4 experts", "policy": "experts-only"}
    scheme = Scheme.model_validate({**head, "formats": {"nvfp4": NVFP4}})
    output = tmp_path / "output"
    plan = schemegen.apply(scheme, sample_folder, output, device="cpu").plan
    output = spoiled(output, tmp_path / "wrong", suffix) if is_wrong else output
    asked: Callable[[], dict[str, str]] = lambda: oracle.agreeing(  # noqa: E731
        plan, open_checkpoint(str(sample_folder), None), output, tmp_path / "scratch"
    )
    if is_wrong:
        with pytest.raises(DifferentError, match=f"{suffix}: other bits than compressed-tensors"):
            asked()
    else:
        assert asked() == {"nvfp4": oracle.COMPRESSOR}


def test_nobody_else_has_the_narrow_range(plan: Plan, sample_folder: Path, finished: Path, tmp_path: Path) -> None:
    narrow = Scheme.model_validate(
        {
            **plan.scheme.model_dump(mode="json"),
            "formats": {"int4": {"num_bits": 4, "group_size": 32, "narrow_range": True}},
        }
    )
    checkpoint = open_checkpoint(str(sample_folder), None)
    found = oracle.agreeing(replace(plan, scheme=narrow), checkpoint, finished, tmp_path)
    assert found == {"int4": "nobody else: model_free_ptq has no narrow_range"}


def test_an_accept_that_fails_is_a_row(tmp_path: Path, sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Workspace(tmp_path)
    monkeypatch.setattr(Workspace, "checkpoint", lambda self, name: sample_folder)
    row = accept.accepted(space, str(tmp_path / "none.yaml"), "fused")
    assert not row.good
    assert row.cells[2].startswith("**failed**: ")
