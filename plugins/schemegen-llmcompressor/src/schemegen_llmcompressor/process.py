"""Starts the worker, waits for it, and says what went wrong in it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from schemegen import OutputError, PluginError
from schemegen.positional import writing
from schemegen_llmcompressor import worker
from schemegen_llmcompressor.faults import fault

_TICK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 5.0
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
#: Everything is on this disk: nothing may be asked of the Hub. Progress bars are of no use in a log.
_SETTINGS: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TQDM_DISABLE": "1"}


def carry_out(order: dict[str, Any], order_file: Path, log: Path, tick: Callable[[], None]) -> None:
    """Run the worker on an order; `tick` is called now and then. Whatever ends this call ends the worker too.

    OutputError where the disk or a device is full, PluginError for all else that stops it.
    """
    with writing(order_file):
        order_file.write_text(json.dumps(order))
    with _started(order_file, log) as process:
        try:
            while process.poll() is None:
                _wait(process, _TICK_SECONDS)
                tick()
        finally:
            _stop(process)
    if process.returncode:
        raise _failure(process.returncode, Path(order["failure"]), log)


def _started(order_file: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", worker.__file__, str(order_file)]
    with writing(log), log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=os.environ | _SETTINGS
        )


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the worker: it leaves by itself when its stdin ends, unless it hangs."""
    assert process.stdin is not None
    process.stdin.close()
    _wait(process, _STOP_SECONDS)
    process.kill()


def _failure(code: int, failure: Path, log: Path) -> PluginError | OutputError:
    try:
        found = json.loads(failure.read_bytes())
    except (OSError, ValueError):
        return fault(f"llm-compressor's process {_ending(code)}; see {log}")
    if found["errno"] in _FULL:
        return OutputError(
            f"cannot write {log.parent}: {os.strerror(found['errno'])}; make room and run the same command again"
        )
    if found["type"] == "OutOfMemoryError":
        return OutputError(f"a device has not enough free memory ({found['text']}); run again on another --device")
    return fault(f"model_free_ptq raised {found['type']}: {found['text']}; see {log}")


def _ending(code: int) -> str:
    """How a process ended that could not say why."""
    if code == -signal.SIGKILL:
        return "was killed, as the system does when memory runs out"
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
