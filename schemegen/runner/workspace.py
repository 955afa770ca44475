"""The folder a run works in, `<out>.partial`: locked, bound to one run, renamed to the output when all is done.

It is a run's own only while it holds `.schemegen/run.json`, which is written first and removed last. Nothing that lacks
it is ever written to or removed, whatever its name.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from schemegen.errors import OutputError
from schemegen.runner.differences import differences
from schemegen.runner.owned import remove_output, strange_entry

#: Inside the partial folder: what belongs to the run and never travels.
STATE_FOLDER: Final = ".schemegen"
_IDENTITY: Final = "run.json"
_REPLACED: Final = "replaced"


def partial_of(output: Path) -> Path:
    """Where a run for `output` works."""
    return output.with_name(output.name + ".partial")


class Workspace:
    """The partial folder of one output, held by one process at a time."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = partial_of(output)
        self.state = self.folder / STATE_FOLDER
        self._lock: int | None = None

    def enter(self, identity: Mapping[str, Any], *, restart: bool) -> None:
        """Take the folder for the run that `identity` describes: a new one, or the same run's unfinished one."""
        try:
            self._enter(identity, restart)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            raise OutputError(f"cannot use {self.folder}: {error.strerror}; choose another output with -o") from error

    def _enter(self, identity: Mapping[str, Any], restart: bool) -> None:
        if self.folder.is_symlink():
            raise OutputError(f"{self.folder} is a link; remove it or choose another output")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._check_own()
        self._give_back()
        if restart:
            self._discard()
        else:
            self._check_same(identity)
        self._write_identity(identity)

    def _take_lock(self) -> None:
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another run is writing {self.output}; wait for it or choose another output") from None
        if not self.folder.exists() or os.stat(self.folder).st_ino != os.fstat(self._lock).st_ino:
            raise OutputError(f"another run has just finished {self.output}; run the same command again")

    def _check_own(self) -> None:
        """Nothing but what a run left, and nothing in it that leads out of the folder."""
        identified = (self.state / _IDENTITY).is_file()
        if not identified and any(path.name != STATE_FOLDER for path in self.folder.iterdir()):
            raise OutputError(f"{self.folder} was made by no run; move it away or choose another output with -o")
        if strange := strange_entry(self.folder):
            raise OutputError(
                f"{strange} is a link, has a second name, or is no file, and no run made it so; remove it and run again"
            )

    def _give_back(self) -> None:
        """An output that a run had moved away when it was interrupted returns to its place."""
        replaced = self.state / _REPLACED
        if replaced.exists() and not self.output.exists():
            os.rename(replaced, self.output)

    def _check_same(self, identity: Mapping[str, Any]) -> None:
        found = self._found_identity()
        if found is not None and (lines := differences(found, json.loads(json.dumps(identity)))):
            raise OutputError(
                "\n".join([f"{self.folder} is the partial output of a different run:", *lines])
                + "\ndiscard it with --restart, or choose another output with -o"
            )

    def _found_identity(self) -> dict[str, Any] | None:
        path = self.state / _IDENTITY
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise OutputError(f"{path} is damaged; discard the partial output with --restart")
        return found

    def _discard(self) -> None:
        for path in self.folder.iterdir():
            if path.name != STATE_FOLDER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in self.state.glob("journal*.jsonl"):
            path.unlink()

    def _write_identity(self, identity: Mapping[str, Any]) -> None:
        self.state.mkdir(exist_ok=True)
        path = self.state / _IDENTITY
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(identity, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def written_bytes(self) -> int:
        """Disk space that the folder's files already take; 0 where there is none."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.rglob("*") if path.is_file())

    def publish(self, *, overwrite: bool) -> None:
        """Give the folder its final name and then remove the run's state; an old output goes only after that."""
        replaced = self.state / _REPLACED
        try:
            if overwrite and self.output.exists():
                os.rename(self.output, replaced)
            try:
                os.rename(self.folder, self.output)
            except OSError:
                self._give_back()
                raise
            _sync_folder(self.output.parent)
            remove_state(self.output)
        except OSError as error:
            raise OutputError(
                f"cannot rename {self.folder} to {self.output}: {error.strerror}; what is finished is kept there"
            ) from error

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_state(output: Path) -> None:
    """Remove what a run leaves in its output: the output that it replaced, then its state, the identity last."""
    state = output / STATE_FOLDER
    if (state / _IDENTITY).is_file():
        remove_output(state / _REPLACED)
        for path in sorted(state.iterdir(), key=lambda path: path.name == _IDENTITY):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        state.rmdir()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
