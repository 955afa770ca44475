"""Fills the disk under a running `apply`, makes room and resumes: `python -m bench.full_disk` (Linux, as root).

The output lies on a small tmpfs. At several points of the run the process is stopped for a moment, all free space is
taken, and it goes on: it must end with exit code 1 and a message, and leave nothing at the output path. With the
space back the same command must finish, every file equal to an unbroken run's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import FailedError, apply
from bench.unbroken import Unbroken, Watch, finish, partial, run_unbroken, start
from bench.workspace import Workspace

# How much of the output is on the disk when it runs full.
MOMENTS = (0.0, 0.25, 0.5, 0.75, 0.95)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path | None]:
    """A tmpfs of `size` bytes mounted on `folder`; None where this may not be done."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            # Lazy, so that a killed process that still holds a file does not hold the folder.
            subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def fill_and_resume(disk: Path, source: Path, unbroken: Unbroken, moment: float) -> str:
    """One interruption by a full disk; gives the message that `apply` ended with."""
    output, filler = disk / "out", disk / "filler"
    with Watch(output, unbroken.files), _killed_on_error(start(apply(source, output))) as process:
        _wait_until(process, partial(output), disk, int(moment * unbroken.nbytes))
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        _fill(filler)
        process.send_signal(signal.SIGCONT)
        said = finish(process, expected=1)
    if output.exists():
        raise FailedError(f"something stands at {output} although the disk was full")
    if "Traceback" in said or "space" not in said:
        raise FailedError(f"the message should speak of space, without a traceback:\n{said}")
    filler.unlink()
    with Watch(output, unbroken.files):
        finish(start(apply(source, output)))
    unbroken.check(output)
    shutil.rmtree(output)
    return said.strip().splitlines()[-1]


@contextmanager
def _killed_on_error(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    except BaseException:
        process.kill()
        process.wait()
        raise


def _wait_until(process: subprocess.Popen[str], work: Path, disk: Path, used: int) -> None:
    while not work.exists() or _used(disk) < used:
        if process.poll() is not None:
            raise FailedError(f"ended before the disk could be filled:\n{process.communicate()[0]}")
        time.sleep(0.0002)


def _used(disk: Path) -> int:
    status = os.statvfs(disk)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _fill(filler: Path) -> None:
    with filler.open("wb") as file:
        status = os.statvfs(filler)
        os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "schemegen-bench")
    space = Workspace(parser.parse_args().work.resolve())
    space.require(("medium",), 0.6)
    try:
        source = space.checkpoint("medium")
        unbroken = run_unbroken(space, source)
        with small_disk(space.root / "small-disk", int(1.2 * unbroken.nbytes)) as disk:
            if disk is None:
                print("skipped: mounting a tmpfs needs root on Linux")
                return
            for moment in MOMENTS:
                said = fill_and_resume(disk, source, unbroken, moment)
                print(f"full at {moment:.0%}: resumed, equal to an unbroken run; it had said: {said}", flush=True)
    except FailedError as error:
        raise SystemExit(str(error)) from error
    finally:
        space.clean()


if __name__ == "__main__":
    main()
