"""Ways to run the command line: in this process, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No guest plugins, a width that help texts are kept in, and no wish of the person who runs the tests."""
    monkeypatch.setenv("SCHEMEGEN_PLUGINS", "off")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("SCHEMEGEN_DEBUG", "SCHEMEGEN_STRICT", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command in this process."""

    def run(*args: str) -> Outcome:
        from schemegen.cli import main

        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(args)
        code = left.value.code
        assert isinstance(code, int)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code, with `main` at hand, as a process of its own; none outlives the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str, **given: object) -> subprocess.Popen[bytes]:
        extra = given.pop("env", {})
        assert isinstance(extra, dict)
        env = {**os.environ, **extra}
        channels = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
        # Tests started in the background have SIGINT ignored, and hand that down.
        heeded = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        command = [sys.executable, "-c", f"{heeded}from schemegen.cli import main\n{code}"]
        process: subprocess.Popen[bytes] = subprocess.Popen(command, env=env, **channels)  # type: ignore[call-overload]
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
