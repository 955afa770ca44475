"""What goes wrong in a source, in the worker and in its result is one sentence that says whose fault it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from schemegen_llmcompressor import worker
from schemegen_llmcompressor.parts import parts_of
from schemegen_llmcompressor.process import carry_out
from schemegen_llmcompressor.result import Result
from schemegen_llmcompressor.worker import failure_of

import schemegen
from schemegen import CheckpointError, OutputError, Plan, PluginError
from schemegen.backends.base import Job
from schemegen.checkpoint.sample import write_sample
from schemegen.planner.tensors import Output

MakeJob = Callable[..., Job]
Change = Callable[[Output], Output | None]
WriteResult = Callable[[Path, Plan, Change], None]
WORKER = worker.__file__
NAN, INFINITY = b"\xc0\x7f", b"\x80\xff"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("bits", "experts"), [(NAN, "fused"), (INFINITY, "separate")], ids=["NaN", "infinity"])
def test_a_nonfinite_weight_is_told_as_the_native_backend_tells_it(
    tmp_path: Path, bits: bytes, experts: Literal["fused", "separate"]
) -> None:
    source = tmp_path / "model"
    write_sample("qwen3.6-moe", source, experts=experts)
    tensor = next(tensor for tensor in schemegen.plan("kimi-k2-int4", source).tensors if tensor.format is not None)
    with (source / tensor.source.file).open("r+b") as file:
        file.seek(tensor.source.offset + tensor.source.nbytes - 1000)
        file.write(bits)
    told = []
    for name in ("native-rtn", "llmcompressor-rtn"):
        with pytest.raises(CheckpointError, match=r"holds NaN or infinity at \[\d+, \d+") as caught:
            schemegen.apply("kimi-k2-int4", source, tmp_path / name, backend=name, device="cpu", jobs=1)
        told.append(str(caught.value))
        assert not (tmp_path / name).exists()
    assert told[0] == told[1]


@pytest.fixture
def fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Carry out an order with a worker that runs the given code, where `told` tells what a worker tells."""

    def run(code: str) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import json, os, signal, sys\n"
            "def told(**failure):\n"
            "    os.write(int(sys.argv[2]), json.dumps(failure).encode())\n"
            "    sys.exit(1)\n"
            f"{code}\n"
        )
        monkeypatch.setattr(worker, "__file__", str(script))
        carry_out({"runs": []}, tmp_path / "order.json", tmp_path / "log.txt", lambda: None)

    return run


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("told(type='OSError', text='x', errno=28)", OutputError, "No space left on device; make room and run"),
        ("told(type='OutOfMemoryError', text='CUDA', errno=None)", OutputError, "run again on another --device"),
        ("told(type='ValueError', text='odd', errno=None)", PluginError, "model_free_ptq raised ValueError: odd; see "),
        ("os.kill(os.getpid(), signal.SIGKILL)", PluginError, "process was killed, as the system does when memory"),
        ("os.kill(os.getpid(), signal.SIGTERM)", PluginError, "process was ended by signal 15; see "),
        ("os._exit(7)", PluginError, "process ended with status 7; see "),
    ],
)
def test_a_worker_that_fails(fail: Callable[[str], None], code: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        fail(code)


def test_a_worker_that_is_killed_leaves_no_links(
    fail: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    code = "import pathlib, runpy\n"
    code += f"main = runpy.run_path({WORKER!r})['main']\n"
    code += "def quantize(order, links):\n"
    code += f"    pathlib.Path({str(tmp_path / 'seen')!r}).write_text(str(links))\n"
    code += "    (links / 'link').symlink_to('/nowhere')\n"
    code += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    code += "main.__globals__['quantize'] = quantize\nmain(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])"
    with pytest.raises(PluginError, match="was killed"):
        fail(code)
    assert (tmp_path / "seen").read_text().startswith(str(tmp_path / "tmp" / "schemegen-"))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_worker_that_fails_leaves_a_log(fail: Callable[[str], None], tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"log\.txt"):
        fail("print('out')\nraise KeyError('why')")
    assert "out" in (log := (tmp_path / "log.txt").read_text())
    assert "KeyError: 'why'" in log


#: The worker itself, where no file takes a byte more and the quantizing fails in the given way.
FULL = """
import resource, runpy
main = runpy.run_path({worker!r})["main"]
def quantize(order, links):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    raise {error}
main.__globals__["quantize"] = quantize
main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
"""


def test_a_full_disk_is_told_though_no_file_can_be_written(fail: Callable[[str], None]) -> None:
    with pytest.raises(OutputError, match="No space left on device; make room and run the same command again"):
        fail(FULL.format(worker=WORKER, error="OSError(28, 'full')"))


def test_a_worker_with_much_to_tell_is_heard(fail: Callable[[str], None]) -> None:
    """What it tells fits into the pipe, which is read after it has ended."""
    with pytest.raises(PluginError, match="raised ValueError: \N{GRINNING FACE}"):
        fail(FULL.format(worker=WORKER, error="ValueError('\\N{GRINNING FACE}' * 1_000_000)"))


def test_a_process_that_cannot_start_is_not_told_as_a_log_that_cannot_be_written(
    fail: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/none/python")
    with pytest.raises(OutputError, match="cannot start /none/python: No such file or directory; "):
        fail("")


def test_the_systems_error_number_is_found() -> None:
    assert failure_of(OSError(28, os.strerror(28)))["errno"] == 28
    text = "Error while serializing: I/O error: No space left on device (os error 28)"
    assert failure_of(ValueError(text)) == {"type": "ValueError", "text": text, "errno": 28}
    assert failure_of(ValueError("odd"))["errno"] is None


def _without(word: str, output: Output) -> Output | None:
    return None if word in output.name else output


def _renamed(output: Output) -> Output:
    return output._replace(name=output.name.replace("experts.1.up", "experts.1.w3"))


def _reshaped(output: Output) -> Output:
    return output._replace(shape=output.shape[::-1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(_without, "experts.1.up_proj.weight_scale"), r"made no \S+experts\.1\.up_proj\.weight_scale"),
        (_renamed, r"made no \S+experts\.1\.up_proj\.weight_packed, .* more; this plan needs another backend"),
        (_reshaped, r"made in another dtype or shape: .* more"),
    ],
    ids=["missing", "renamed", "reshaped"],
)
def test_a_result_that_is_not_what_the_plan_names(
    sample: Path, tmp_path: Path, job: MakeJob, write_result: WriteResult, change: Change, words: str
) -> None:
    made = job(sample)
    write_result(tmp_path / "result", made.plan, change)
    with pytest.raises(PluginError, match=words):
        Result(tmp_path / "result", parts_of(made.plan))


def test_a_result_with_more_than_the_plan_names(
    sample: Path, tmp_path: Path, job: MakeJob, write_result: WriteResult
) -> None:
    made = job(sample)
    write_result(tmp_path / "result", made.plan, lambda output: output)
    parts = [part for part in parts_of(made.plan) if part.tensors]
    cut = [type(part)(part.file, part.format, part.shard, part.tensors[1:]) for part in parts]
    with pytest.raises(PluginError, match="made what the plan does not name: "):
        Result(tmp_path / "result", cut)


def test_a_damaged_result(sample: Path, tmp_path: Path, job: MakeJob, write_result: WriteResult) -> None:
    made = job(sample)
    write_result(tmp_path / "result", made.plan, lambda output: output)
    (file, *_) = sorted((tmp_path / "result").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(PluginError, match="left no usable result"):
        Result(tmp_path / "result", parts_of(made.plan))
