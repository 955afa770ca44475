"""Starts the worker, waits for it, and says what went wrong in it."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

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

    OutputError where the disk or a device is full, PluginError for all else that stops it. The worker tells a failure
    through a pipe: a file would be no use on a full disk.
    """
    with writing(order_file):
        order_file.write_text(json.dumps(order))
    told, tells = os.pipe()
    with os.fdopen(told, "rb", buffering=0) as failure:
        with os.fdopen(tells, "wb"), _links() as links, _started(order_file, log, tells, links) as process:
            try:
                while process.poll() is None:
                    _wait(process, _TICK_SECONDS)
                    tick()
            finally:
                _stop(process)
        if process.returncode:
            raise _failure(process.returncode, failure, log)


@contextmanager
def _links() -> Iterator[str]:
    """Where the worker makes its folder of links, and may remove it; not in scratch space, where no link may be."""
    with writing(Path("the folder for temporary files")):
        folder = str(Path(tempfile.gettempdir()) / f"schemegen-{secrets.token_hex(8)}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _started(order_file: Path, log: Path, tells: int, links: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", worker.__file__, str(order_file), str(tells), links]
    with writing(log):
        output = log.open("wb")
    with output:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[tells],
                env=os.environ | _SETTINGS,
            )
        except OSError as error:
            raise OutputError(
                f"cannot start {sys.executable}: {error.strerror}; mend that and run the same command again"
            ) from error


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


def _failure(code: int, failure: IO[bytes], log: Path) -> PluginError | OutputError:
    # A process that the worker started, and that outlives it, may hold the other end: never wait for more.
    os.set_blocking(failure.fileno(), False)
    try:
        found = json.loads(failure.read(worker.PIPE_BYTES) or b"")
    except ValueError:
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
