"""How runs end: exit codes, one line a fault, no traceback but for a bug, interrupts, closed pipes, poor encodings."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from schemegen.errors import OutputError, SchemeFault, SchemeFileError

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Start

ROOT = Path(__file__).parents[2]
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.partial/model.safetensors")
TOLD = [
    (OutputError("output x exists; choose another"), "OutputError", "output x exists; choose another"),
    (SchemeFileError([SchemeFault("a.yaml", "name", "is empty")]), "SchemeFileError", "a.yaml: name: is empty"),
    (PermissionError(errno.EACCES, "Permission denied", "m"), "PermissionError", "m: permission denied"),
    (FULL, "OSError", "out.partial/model.safetensors: no space left on device"),
    (OSError("odd"), "OSError", "odd"),
    (MemoryError(), "MemoryError", "out of memory; use fewer --jobs or a machine with more of it"),
]


def failing(error: BaseException) -> Any:
    def fail(*args: object, **kwargs: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(("error", "kind", "message"), TOLD, ids=[kind for _, kind, _ in TOLD])
def test_an_error_is_told_in_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, message: str
) -> None:
    monkeypatch.setattr("schemegen.catalog.load_catalog", failing(error))
    done = cli("list")
    assert (done.code, done.out, done.err) == (1, "", f"error: {message}\n")


@pytest.mark.parametrize(("error", "kind", "message"), TOLD, ids=[kind for _, kind, _ in TOLD])
def test_with_json_an_error_is_told_in_json_too(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, message: str
) -> None:
    monkeypatch.setattr("schemegen.catalog.load_catalog", failing(error))
    done = cli("show", "x", "--json")
    assert (done.code, done.err) == (1, f"error: {message}\n")
    assert json.loads(done.out) == {"error": {"kind": kind, "message": message}}


def test_a_bug_keeps_its_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from schemegen.cli import main

    monkeypatch.setattr("schemegen.catalog.load_catalog", failing(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["list"])


def test_debugging_shows_the_traceback_of_any_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schemegen.catalog.load_catalog", failing(OutputError("no")))
    monkeypatch.setenv("SCHEMEGEN_DEBUG", "1")
    done = cli("list")
    assert done.code == 1
    assert done.err.startswith("Traceback (most recent call last):")
    assert done.err.endswith("error: no\n")


@pytest.mark.parametrize(
    "args",
    [["apply"], ["apply", "s"], ["plan", "s", "m", "extra"], ["plan", "", "m"], ["apply", "s", "m", "-o", ""]],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(cli: Cli, args: list[str]) -> None:
    done = cli(*args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: schemegen ")


WAITING = """
import sys, time
import schemegen.{module}
def wait(*args, **kwargs):
    print("ready", flush=True, file=sys.__stdout__)
    time.sleep(60)
schemegen.{module}.{name} = wait
main({args!r})
"""
APPLY = ["apply", "kimi-k2-int4", "m"]


def interrupted(process: subprocess.Popen[bytes], number: int) -> tuple[int, str, str]:
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_apply_says_how_it_goes_on(start: Start, number: int, code: int) -> None:
    process = start(WAITING.format(module="api", name="apply", args=APPLY))
    assert interrupted(process, number) == (code, "", "interrupted; run the same command again to resume\n")


def test_an_interrupted_restart_does_not_start_over(start: Start) -> None:
    process = start(WAITING.format(module="api", name="apply", args=[*APPLY, "--restart"]))
    _, _, err = interrupted(process, signal.SIGTERM)
    assert err == "interrupted; run the same command again, without --restart, to resume\n"


def test_what_cannot_be_resumed_does_not_say_so(start: Start) -> None:
    process = start(WAITING.format(module="catalog", name="load_catalog", args=["list"]))
    assert interrupted(process, signal.SIGINT) == (130, "", "interrupted\n")


def test_a_sigterm_handler_of_the_host_is_left_alone(cli: Cli) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert cli("list").code == 0
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_sigterm_handler_goes_with_the_run(cli: Cli) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert cli("list").code == 0
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("args", [["list"], ["--help"], ["list", "--json"]], ids=" ".join)
def test_a_closed_pipe_ends_quietly(start: Start, args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(f"main({args!r})", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_a_full_stdout_is_an_error_told_once(start: Start) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("this system has no /dev/full")
    with device.open("wb") as full:
        process = start("main(['list'])", stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.decode()) == (1, "error: no space left on device\n")


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_a_full_stdout_after_the_work_says_that_the_work_is_done(start: Start, tmp_path: Path, args: list[str]) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("this system has no /dev/full")
    output = tmp_path / "out"
    apply = ["apply", "kimi-k2-int4", "sample:qwen3.6-moe", "-o", str(output), *args]
    with device.open("wb") as full:
        process = start(f"main({apply!r})", stdout=full)
        _, err = process.communicate(timeout=120)
    told = f"error: no space left on device; {output} is finished, only this report of it is lost"
    assert (process.returncode, err.decode().splitlines()[-1]) == (1, told)
    assert (output / "schemegen.json").exists()


def test_closed_streams_are_not_given_to_files(tmp_path: Path) -> None:
    code = f"""
import os
from schemegen.cli.exits import exit_code
def run():
    with open({str(tmp_path / "file")!r}, "wb") as file:
        os.write(2, b"noise")
        assert file.fileno() > 2
    raise OSError("a fault")
os._exit(10 + exit_code(run))
"""
    for closed in ("2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        shell = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code]
        done = subprocess.run(shell, cwd=ROOT, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (11, b"", b"")
        assert (tmp_path / "file").read_bytes() == b""


def test_without_stdout_and_stderr_a_command_still_runs(start: Start) -> None:
    process = start("import os, sys\nsys.stdout = sys.stderr = None\nmain(['list'])")
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}


def test_a_name_that_stdout_cannot_spell_is_escaped(start: Start) -> None:
    process = start("main(['show', 'größer'])", env=ASCII)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, b"")
    assert b"unknown name 'gr\\xf6\\xdfer'" in err


def test_everything_of_our_own_is_ascii(start: Start) -> None:
    outputs = [start(f"main({args!r})").communicate(timeout=60) for args in (["--help"], ["apply", "-h"], ["list"])]
    assert [out + err for out, err in outputs if not (out + err).isascii()] == []
