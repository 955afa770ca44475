"""apply, plan, verify and inspect as a library user calls them, on real folders."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import schemegen
from bench.compare import file_differences, tensor_differences
from schemegen import api, builtin
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.backends.native_rtn import NativeRtn
from schemegen.catalog import load_catalog
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import (
    CheckpointError,
    OutputError,
    PlanError,
    PluginError,
    SchemeFileError,
    SchemegenError,
    UnknownNameError,
    UnsupportedError,
)
from schemegen.hookspecs import hookimpl
from schemegen.manifest import read_manifest, write_manifest
from schemegen.runner import produce, workspace
from schemegen.scheme import Scheme

KIMI = "kimi-k2-int4"


def same_folder(left: Path, right: Path) -> list[str]:
    return list(file_differences(left, right))


def test_apply_reports_what_it_made(sample_folder: Path, tmp_path: Path) -> None:
    result = schemegen.apply(KIMI, sample_folder, tmp_path / "my model")
    assert result.status == "written"
    assert (result.bytes_in, result.bytes_out) == result.plan.totals[2:4]
    assert result.serve == f"vllm serve '{tmp_path / 'my model'}'"
    assert result.checks
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my model"]


def test_the_default_output_is_named_after_model_and_scheme(
    sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert schemegen.apply(KIMI, sample_folder).path == Path("qwen3.6-moe-kimi-k2-int4")


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_bytes_do_not_depend_on_jobs(finished: Path, sample_folder: Path, tmp_path: Path, jobs: int) -> None:
    schemegen.apply(KIMI, sample_folder, tmp_path / "out", jobs=jobs)
    assert same_folder(finished, tmp_path / "out") == []


@pytest.mark.parametrize("experts", ["fused", "separate"])
@pytest.mark.parametrize("mtp_experts", ["fused", "separate"])
def test_tensors_do_not_depend_on_the_expert_layout(
    finished: Path, tmp_path: Path, experts: Literal["fused", "separate"], mtp_experts: Literal["fused", "separate"]
) -> None:
    write_sample("qwen3.6-moe", tmp_path / "model", experts=experts, mtp_experts=mtp_experts)
    schemegen.apply(KIMI, tmp_path / "model", tmp_path / "out")
    assert list(tensor_differences(finished, tmp_path / "out")) == []
    schemegen.verify(tmp_path / "out", tmp_path / "model")


def test_the_same_result_again_is_found(sample_folder: Path, tmp_path: Path) -> None:
    first = schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in first.path.rglob("*")}
    again = schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    assert again.status == "unchanged"
    assert {path: path.stat().st_mtime_ns for path in first.path.rglob("*")} == times


def test_another_result_is_refused_unless_overwritten(sample_folder: Path, tmp_path: Path, finished: Path) -> None:
    out = schemegen.apply(KIMI, sample_folder, tmp_path / "out", policies=["keep-mtp"]).path
    with pytest.raises(OutputError, match="is not this result"):
        schemegen.apply(KIMI, sample_folder, out)
    schemegen.apply(KIMI, sample_folder, out, overwrite=True)
    assert same_folder(finished, out) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden"])
def test_a_folder_that_is_no_model_is_never_overwritten(sample_folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="did not write"):
        schemegen.apply(KIMI, sample_folder, tmp_path, overwrite=True)
    assert (tmp_path / name).read_text() == "mine"


def test_the_working_folder_is_never_overwritten(
    sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OutputError, match="working folder"):
        schemegen.apply(KIMI, sample_folder, ".", overwrite=True)


def test_a_file_at_the_output_is_refused(sample_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    for overwrite in (False, True):
        with pytest.raises(OutputError):
            schemegen.apply(KIMI, sample_folder, tmp_path / "out", overwrite=overwrite)
    assert (tmp_path / "out").read_text() == "a file"


class Interrupt:
    """A Progress that interrupts after some bytes."""

    def __init__(self, after: int) -> None:
        self.left = after

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def advance(self, nbytes: int) -> None:
        """Raise once enough is done."""
        self.left -= nbytes
        if self.left <= 0:
            raise KeyboardInterrupt

    def finish(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("after", [1, 1_000_000, 5_000_000, 7_500_000])
def test_an_interrupted_run_leaves_no_output_and_resumes_to_equal_bytes(
    sample_folder: Path, tmp_path: Path, finished: Path, after: int
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        schemegen.apply(KIMI, sample_folder, out, progress=Interrupt(after))
    assert not out.exists()
    result = schemegen.apply(KIMI, sample_folder, out)
    assert result.resumed_bytes > 0
    assert same_folder(finished, out) == []


STEPS = ["seal", "check_unread", "_check_source_unchanged"]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_a_late_step_resumes_to_equal_bytes(
    sample_folder: Path, tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def crash(*_: object, **__: object) -> Iterator[str]:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(produce, step, crash)
        with pytest.raises(RuntimeError):
            schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    assert same_folder(finished, tmp_path / "out") == []


@pytest.mark.parametrize("moment", ["rename", "clear"])
def test_a_crash_around_the_rename_resumes_to_equal_bytes(
    sample_folder: Path, tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("crash")

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        if moment == "rename":
            patched.setattr(os, "rename", crash)
        else:
            patched.setattr(workspace.Workspace, "_clear", crash)
        with pytest.raises(RuntimeError):
            schemegen.apply(KIMI, sample_folder, out)
    if moment == "clear":
        schemegen.verify(out, sample_folder)
    result = schemegen.apply(KIMI, sample_folder, out)
    assert result.status == ("written" if moment == "rename" else "unchanged")
    assert not (tmp_path / "out.partial").exists()
    assert same_folder(finished, out) == []


@pytest.mark.parametrize("name", ["README.md", "tokenizer.json", "config.json"])
def test_a_damaged_result_does_not_pass_for_the_same(sample_folder: Path, tmp_path: Path, name: str) -> None:
    out = schemegen.apply(KIMI, sample_folder, tmp_path / "out").path
    (out / name).write_bytes((out / name).read_bytes().replace(b"e", b"E", 1))
    with pytest.raises(SchemegenError, match=name):
        schemegen.apply(KIMI, sample_folder, out)


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "NEW.txt"])
def test_a_changed_side_file_of_the_source_is_another_run(source: Path, tmp_path: Path, name: str) -> None:
    out = schemegen.apply(KIMI, source, tmp_path / "out").path
    with (source / name).open("a") as file:
        file.write("\n")
    with pytest.raises(OutputError, match=f"is not this result(.|\n)*source_files.{name}: there"):
        schemegen.apply(KIMI, source, out)


def test_overwriting_removes_nothing_that_schemegen_did_not_write(sample_folder: Path, tmp_path: Path) -> None:
    out = schemegen.apply(KIMI, sample_folder, tmp_path / "out", policies=["keep-mtp"]).path
    (out / "notes").mkdir()
    (out / "notes/mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"did not write \(notes/mine.txt\)"):
        schemegen.apply(KIMI, sample_folder, out, overwrite=True)
    assert (out / "notes/mine.txt").read_text() == "mine"


def test_neighbours_of_the_output_are_not_touched(sample_folder: Path, tmp_path: Path) -> None:
    for name in (".out.replaced", "out.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "diary").write_text("mine")
    with pytest.raises(OutputError, match="made by no run"):
        schemegen.apply(KIMI, sample_folder, tmp_path / "out", restart=True)
    (tmp_path / "out.partial").rename(tmp_path / "moved")
    schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    schemegen.apply(KIMI, sample_folder, tmp_path / "out", overwrite=True)
    assert (tmp_path / ".out.replaced" / "diary").read_text() == "mine"


def test_a_finished_output_that_is_called_partial_is_not_taken(sample_folder: Path, tmp_path: Path) -> None:
    schemegen.apply(KIMI, sample_folder, tmp_path / "x.partial")
    with pytest.raises(OutputError, match="made by no run"):
        schemegen.apply(KIMI, sample_folder, tmp_path / "x", restart=True)
    schemegen.verify(tmp_path / "x.partial", sample_folder)


def test_a_partial_output_of_another_run_is_refused_by_name(
    sample_folder: Path, tmp_path: Path, finished: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        schemegen.apply(KIMI, sample_folder, out, policies=["keep-mtp"], progress=Interrupt(1))
    with pytest.raises(OutputError, match="rules: made with keep-mtp"):
        schemegen.apply(KIMI, sample_folder, out)
    schemegen.apply(KIMI, sample_folder, out, restart=True)
    assert same_folder(finished, out) == []


def test_a_source_that_changed_between_two_runs_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        schemegen.apply(KIMI, source, tmp_path / "out", progress=Interrupt(1))
    shard = next(source.glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(OutputError, match=r"source\.model-.*: there"):
        schemegen.apply(KIMI, source, tmp_path / "out")


def test_unindexed_weights_are_named_and_left_out(source: Path, tmp_path: Path) -> None:
    (source / "extra.bin").write_bytes(b"weights")
    result = schemegen.apply(KIMI, source, tmp_path / "out")
    assert result.unindexed == ("extra.bin",)
    assert not (tmp_path / "out/extra.bin").exists()


def test_an_unindexed_mtp_block_is_an_error_unless_dropped(source: Path, tmp_path: Path) -> None:
    index = json.loads((source / "model.safetensors.index.json").read_text())
    last = max(index["weight_map"].values())
    index["weight_map"] = {name: shard for name, shard in index["weight_map"].items() if shard != last}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    # The last shard holds the head too.
    config = json.loads((source / "config.json").read_text()) | {"tie_word_embeddings": True}
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="MTP"):
        schemegen.apply(KIMI, source, tmp_path / "out")
    result = schemegen.apply(KIMI, source, tmp_path / "out", unindexed="drop")
    assert result.unindexed == (last,)
    assert any("promises an MTP block" in note for note in result.notes)


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0])
def test_nan_and_infinity_are_named_with_tensor_and_position(source: Path, tmp_path: Path, bits: int) -> None:
    plan = schemegen.plan(KIMI, source)
    tensor = [tensor for tensor in plan.tensors if tensor.format is not None][-1]
    _, rows, columns = tensor.source.shape
    with (source / tensor.source.file).open("r+b") as file:
        file.seek(tensor.source.offset + ((2 * rows + 3) * columns + 7) * 2)
        file.write(bits.to_bytes(2, "little"))
    with pytest.raises(CheckpointError) as caught:
        schemegen.apply(KIMI, source, tmp_path / "out")
    assert tensor.name in str(caught.value)
    assert "[2, 3, 7]" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_kept_tensors_may_hold_anything(source: Path, tmp_path: Path) -> None:
    tensor = next(tensor for tensor in schemegen.plan(KIMI, source).tensors if tensor.format is None)
    with (source / tensor.source.file).open("r+b") as file:
        file.seek(tensor.source.offset)
        file.write((0x7FC0).to_bytes(2, "little"))
    schemegen.verify(schemegen.apply(KIMI, source, tmp_path / "out").path, source)


def test_free_space_is_checked_first(sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1_000_000))
    with pytest.raises(OutputError, match=r"needs 11\.06 MB more and 1\.00 MB are free"):
        schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: schemegen.plan("kimi-k2-int", m), UnknownNameError, "did you mean kimi-k2-int4"),
        (lambda m: schemegen.plan(KIMI, m, policies=["keep-mpt"]), UnknownNameError, "keep-mtp"),
        (lambda m: schemegen.apply(KIMI, m, "o", backend="nativ-rtn"), UnknownNameError, "native-rtn"),
        (lambda m: schemegen.apply(KIMI, m, "o", device="cuda:0"), UnsupportedError, "cuda:0"),
        (lambda m: schemegen.plan("none.yaml", m), SchemeFileError, "none.yaml: cannot be read"),
        (lambda m: schemegen.verify("nowhere"), OutputError, "no folder"),
        (lambda m: schemegen.verify(m), SchemegenError, "not a finished output"),
        (lambda m: schemegen.plan(KIMI, "Qwen/Qwen3.6-35B-A3B"), CheckpointError, "Hub"),
    ],
)
def test_bad_requests_get_one_sentence_and_write_nothing(
    sample_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: object,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call(sample_folder)  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *(
            ({"device": device}, "^device .* names no device")
            for device in (list[str](), (), 0, None, [0], ["cpu", None])
        ),
        *(({"revision": revision}, "^revision .* is no branch") for revision in (5, "", b"main", ["main"])),
        *(({"base_model": base}, "^base model .* is no Hub id") for base in (5, "", b"a/b", Path("a/b"))),
        *(({"jobs": jobs}, "^jobs .* is no number") for jobs in (0, -1, "2", 1.5, True)),
    ],
)
def test_arguments_of_another_kind_get_one_sentence(
    sample_folder: Path, finished: Path, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    calls: list[Callable[[], object]] = [lambda: schemegen.apply(KIMI, sample_folder, tmp_path / "out", **given)]
    if "revision" in given:
        calls += [lambda: schemegen.plan(KIMI, sample_folder, **given), lambda: schemegen.inspect("a/b", **given)]
    if given.keys() & {"revision", "jobs"}:
        calls += [lambda: schemegen.verify(finished, sample_folder, **given)]
    for call in calls:
        with pytest.raises(UnsupportedError, match=message):
            call()
    assert list(tmp_path.iterdir()) == []


def test_devices_may_come_one_by_one(sample_folder: Path, tmp_path: Path) -> None:
    assert schemegen.apply(KIMI, sample_folder, tmp_path / "out", device=iter(["cpu"])).status == "written"  # type: ignore[arg-type]


def test_a_revision_to_compare_with_needs_a_model(finished: Path) -> None:
    with pytest.raises(UnsupportedError, match="name it with against"):
        schemegen.verify(finished, revision="main")


def test_a_folder_that_looks_like_an_option_is_named_as_a_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source.rename("-dash")
    result = schemegen.apply(KIMI, "-dash", "-out")
    assert result.serve == "vllm serve ./-out"
    card = (result.path / "README.md").read_text()
    assert f"\nschemegen apply {KIMI} ./-dash\nschemegen verify dash-{KIMI} --against ./-dash\n" in card


def test_an_unknown_model_type_is_an_error(source: Path, tmp_path: Path) -> None:
    config = json.loads((source / "config.json").read_text()) | {"model_type": "qwen3_5_moee"}
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownNameError, match="did you mean qwen3_5_moe"):
        schemegen.plan(KIMI, source)


def test_an_output_cannot_be_quantized_again(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="quantiz"):
        schemegen.apply(KIMI, finished, tmp_path / "twice")


def test_the_card_says_how_to_make_the_output_again(source: Path, tmp_path: Path) -> None:
    (source / "mtp.safetensors").write_bytes((source / "model-00003-of-00003.safetensors").read_bytes())
    text = (Path(__file__).parents[1] / "schemes" / f"{KIMI}.yaml").read_text().replace(KIMI, "house-int4")
    (tmp_path / "any.yaml").write_text(text)
    out = schemegen.apply(tmp_path / "any.yaml", source, tmp_path / "out", policies=["keep-mtp"], unindexed="drop").path
    card = (out / "README.md").read_text()
    assert "schemegen apply house-int4.yaml model --policy keep-mtp --unindexed drop\n" in card


def test_two_architectures_may_not_claim_one_model_type(sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = replace(QWEN3_5_MOE, name="twin")
    monkeypatch.setattr(builtin, "schemegen_register_architectures", hookimpl(lambda: [QWEN3_5_MOE, twin]))
    told = r"architecture twin: model_type 'qwen3_5_moe' is that of architecture qwen3_5_moe already"
    with pytest.raises(PluginError, match=told):
        schemegen.plan(KIMI, sample_folder)


def test_what_apply_would_refuse_is_refused_by_plan(sample_folder: Path) -> None:
    kimi = json.loads(schemegen.plan(KIMI, sample_folder).scheme.model_dump_json())
    float8 = {"weights": {"num_bits": 8, "type": "int", "strategy": "channel", "observer": "histogram"}}
    with pytest.raises(UnsupportedError, match=r"no backend takes format 'int4'.*observer"):
        schemegen.plan(schemegen.Scheme.model_validate(kimi | {"formats": {"int4": float8}}), sample_folder)
    rules = [{"role": "router", "use": "int4"}]
    with pytest.raises(UnsupportedError, match="router"):
        schemegen.plan(schemegen.Scheme.model_validate(kimi | {"policy": rules}), sample_folder)


class Guest(NativeRtn):
    """Another backend, which counts how often it is asked and takes formats that the native one refuses."""

    name = "guest"
    asked = 0

    def refuses(self, format: schemegen.Format) -> str | None:
        """Nothing."""
        self.asked += 1
        return None


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Guest:
    found = Guest()
    monkeypatch.setattr(builtin, "schemegen_register_backends", hookimpl(lambda: [NativeRtn(), found]))
    return found


def test_backends_that_nobody_chose_are_asked_for_advice_alone(
    sample_folder: Path, tmp_path: Path, guest: Guest
) -> None:
    schemegen.apply(KIMI, sample_folder, tmp_path / "out")
    assert guest.asked == 0
    kimi = json.loads(schemegen.plan(KIMI, sample_folder).scheme.model_dump_json())
    weights = kimi["formats"]["int4"]["weights"] | {"observer": "histogram"}
    scheme = schemegen.Scheme.model_validate(kimi | {"formats": {"int4": {"weights": weights}}})
    assert schemegen.plan(scheme, sample_folder).formats_used
    message = r"^backend native-rtn refuses format 'int4': it .*observer.*; choose one that takes it: guest$"
    with pytest.raises(UnsupportedError, match=message):
        schemegen.apply(scheme, sample_folder, tmp_path / "other")


def test_how_the_source_was_found_is_told_once_and_not_in_the_card(
    sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(open_local(sample_folder), notes=("taken from the cache",))
    monkeypatch.setattr(api, "open_checkpoint", lambda *_: found)
    result = schemegen.apply(KIMI, "a/b", tmp_path / "out")
    assert result.notes.count("taken from the cache") == 1
    assert schemegen.plan(KIMI, "a/b").notes.count("taken from the cache") == 1
    assert "taken from the cache" not in (tmp_path / "out/README.md").read_text()


def test_inspect_counts_what_is_there(sample_folder: Path, finished: Path) -> None:
    found = schemegen.inspect(sample_folder)
    assert sum(row.tensors for row in found.rows) == found.tensors == 124
    assert {row.layout for row in found.rows} == {"", "fused"}
    assert schemegen.inspect(finished).quantization is not None


def test_a_scheme_file_and_a_scheme_object_work_like_a_name(sample_folder: Path) -> None:
    path = Path(__file__).parents[1] / "schemes" / f"{KIMI}.yaml"
    by_name = schemegen.plan(KIMI, sample_folder)
    assert schemegen.plan(path, sample_folder) == by_name
    assert schemegen.plan(str(path), sample_folder) == by_name
    assert schemegen.plan(schemegen.load_scheme(path), sample_folder) == by_name


def test_rules_that_meant_something_else_are_not_planned_again(sample_folder: Path, tmp_path: Path) -> None:
    rules = ["keep-mtp", {"role": "routed_expert", "projection": ["gate", "up", "down"], "use": "int8"}]
    int8 = {"num_bits": 8, "strategy": "channel"}
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int8": int8}, "policy": rules}
    schemegen.apply(Scheme.model_validate(fields), sample_folder, tmp_path / "out")
    schemegen.verify(tmp_path / "out", sample_folder)
    manifest = read_manifest(tmp_path / "out")
    write_manifest(tmp_path / "out", manifest.model_copy(update={"schemegen": "0.3.0"}))
    schemegen.verify(tmp_path / "out")
    with pytest.raises(UnsupportedError, match=r"by schemegen '0\.3\.0', whose rules of projections did not reach"):
        schemegen.verify(tmp_path / "out", sample_folder)


def test_a_scheme_made_without_looking_is_refused(sample_folder: Path) -> None:
    found = load_catalog().scheme("w8a16")
    with pytest.raises(PlanError, match="scheme 'w8a16': formats is of another type than it may be"):
        schemegen.plan(found.model_copy(update={"formats": {"int8": {"num_bits": 8}}}), sample_folder)
