"""A finished result is found again; whatever else is in scratch is of no use and goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from schemegen_llmcompressor import LlmCompressorRtn, backend, scratch

import schemegen
from schemegen import Plan
from schemegen.backends.base import Job

MakeJob = Callable[..., Job]
Start = Callable[..., subprocess.Popen[bytes]]
APPLY = ["-m", "schemegen", "apply", "kimi-k2-int4", "--backend", "llmcompressor-rtn", "--device", "cpu"]


def test_a_finished_result_is_used_again(
    sample: Path, job: MakeJob, zeros: Callable[[Plan], None], forbid_worker: Callable[[], None]
) -> None:
    made = job(sample)
    zeros(made.plan)
    LlmCompressorRtn().prepare(made)
    forbid_worker()
    LlmCompressorRtn().prepare(job(sample))


@pytest.mark.parametrize("change", ["scheme", "versions", "source", "marker", "damage", "loss"])
def test_a_result_of_something_else_is_not(
    sample: Path,
    two_formats: Path,
    job: MakeJob,
    zeros: Callable[[Plan], None],
    forbid_worker: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    made = job(sample)
    zeros(made.plan)
    LlmCompressorRtn().prepare(made)
    forbid_worker()
    again = job(sample, two_formats) if change == "scheme" else made
    if change == "versions":
        monkeypatch.setattr(scratch, "version", lambda name: "9.9")
    if change == "source":
        shards = tuple(replace(shard, mtime_ns=shard.mtime_ns + 1) for shard in made.checkpoint.shards)
        again = replace(made, checkpoint=replace(made.checkpoint, shards=shards))
    if change == "marker":
        (marker,) = made.scratch.rglob("made.json")
        marker.write_bytes(marker.read_bytes()[:-9])
    if change in ("damage", "loss"):
        (path, *_) = made.scratch.rglob("*.safetensors")
        kept = path.stat()
        path.write_bytes(path.read_bytes()[:-1] + b"\2")
        os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        if change == "loss":
            path.unlink()
    with pytest.raises(AssertionError, match="a worker was started"):
        LlmCompressorRtn().prepare(again)
    assert list(made.scratch.rglob("*.safetensors")) == []


def test_half_a_result_is_discarded(sample: Path, job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after some files: no marker, and the next run begins with an empty folder."""
    seen: list[list[str]] = []

    def interrupted(order: dict[str, str], *_: object) -> None:
        result = Path(order["result"])
        seen.append(sorted(path.name for path in result.iterdir()))
        (result / "00001.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(backend, "carry_out", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            LlmCompressorRtn().prepare(job(sample))
    assert seen == [[], []]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `schemegen apply` as a process of its own, with a folder of its own for temporary files."""
    started: list[subprocess.Popen[bytes]] = []
    (tmp_path / "tmp").mkdir()

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        # Tests started in the background have SIGINT ignored, and hand that down.
        heeded = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        code = f"{heeded} sys.argv[0] = 'schemegen'; runpy.run_module('schemegen', run_name='__main__')"
        command = [sys.executable, "-c", code, *APPLY[2:], *arguments]
        environment = os.environ | {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait at most 30 seconds."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within 30 seconds")


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_a_stopped_run_takes_its_worker_along_and_resumes(
    sample: Path, tmp_path: Path, start: Start, signal_number: signal.Signals
) -> None:
    """The worker's folder of links is there while it runs, and is removed by itself when its stdin ends."""
    output, temporary = tmp_path / "out", tmp_path / "tmp"
    process = start(str(sample), "-o", str(output))
    wait_for(lambda: any(temporary.iterdir()))
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (130, -signal_number), errors
    assert (b"run the same command again" in errors) == (signal_number is signal.SIGINT)
    wait_for(lambda: not any(temporary.iterdir()))
    assert not output.exists()
    assert (tmp_path / "out.partial").is_dir()
    made = schemegen.apply("kimi-k2-int4", sample, output, backend="llmcompressor-rtn", device="cpu")
    assert made.status == "written"
    assert not (tmp_path / "out.partial").exists()
