"""How a run ends: what each kind of error says on stderr, and the exit code it gives."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Final, NoReturn, TextIO

import click

from schemegen.cli import render
from schemegen.errors import SchemegenError

DEBUG_VARIABLE: Final = "SCHEMEGEN_DEBUG"
#: Told in one line: errors raised on purpose, and what the machine refuses. All else is a bug, traceback and all.
TOLD: Final = (SchemegenError, OSError, MemoryError)
_SIGNALLED: Final = 128


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised in the main thread like Ctrl-C."""


def exit_code(run: Callable[[], None]) -> int:
    """Run, say on stderr what went wrong, and give the code to exit with."""
    _take_closed()
    for stream in (sys.stdout, sys.stderr):
        _never_refuse(stream)
    try:
        with _sigterm_raises():
            run()
        return 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt as stop:
        render.note("; ".join(["interrupted", *getattr(stop, "__notes__", ())]))
        return _SIGNALLED + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    except BrokenPipeError:
        render.lose(sys.stdout)
        return _SIGNALLED + signal.SIGPIPE
    except TOLD as error:
        return _fail(error)


def message(error: BaseException) -> str:
    """What a person is told of an error in TOLD."""
    if isinstance(error, MemoryError):
        return "out of memory; use fewer --jobs or a machine with more of it"
    return "; ".join([_reason(error), *getattr(error, "__notes__", ())])


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror[:1].lower() + error.strerror[1:]
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    return str(error)


def _fail(error: BaseException) -> int:
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        render.note(traceback.format_exc().rstrip())
    render.note(f"error: {message(error)}")
    try:
        print(end="", flush=True)
    except OSError:
        render.lose(sys.stdout)
    return 1


def _take_closed() -> None:
    """Put nothing where stdin, stdout or stderr is closed: else a file of the run would get its number and text."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _never_refuse(stream: TextIO | None) -> None:
    """Write what the stream's encoding lacks as an escape: a name must not end a run."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM stops the run as Ctrl-C does, so that it leaves what the next run can resume."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise_terminated(number: int, frame: object) -> NoReturn:
    raise Terminated
