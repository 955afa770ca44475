"""The folder a run works in, `<out>.partial`: locked, bound to one run. Its `model` becomes the output in one rename.

It is a run's own only while it holds `run.json`, which is written first and removed last. Nothing that lacks it is ever
written to or removed, whatever its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from schemegen.errors import OutputError
from schemegen.positional import sync_path
from schemegen.runner.differences import differences, from_headers
from schemegen.runner.owned import remove_output, strange_entry

_IDENTITY: Final = "run.json"
_IDENTITY_BEGUN: Final = "run.json.part"


def partial_of(output: Path) -> Path:
    """Where a run for `output` works."""
    return output.with_name(output.name + ".partial")


class Workspace:
    """The partial folder of one output, held by one process at a time."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = partial_of(output)
        self.model = self.folder / "model"
        self.scratch = self.folder / "scratch"
        self._replaced = self.folder / "replaced"
        self._identity = self.folder / _IDENTITY
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

    def foresee(self, identity: Mapping[str, Any], *, restart: bool) -> None:
        """OutputError for what `enter` would refuse, as far as headers tell; nothing is taken or written."""
        if self.folder.is_dir() and not self.folder.is_symlink():
            self._check_own()
            if self.model.exists() and not restart:
                self._check_same(identity, from_headers)

    def _enter(self, identity: Mapping[str, Any], restart: bool) -> None:
        if self.folder.is_symlink():
            raise OutputError(f"{self.folder} is a link; remove it or choose another output")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._check_own()
        self._settle_replaced()
        if strange := strange_entry(self.folder):
            raise OutputError(
                f"{strange} is a link, has a second name, or is no file, and no run made it so; remove it and run again"
            )
        if restart:
            self._discard()
        elif self.model.exists():
            self._check_same(identity)
        self._write_identity(identity)
        for folder in (self.model, self.scratch):
            folder.mkdir(exist_ok=True)

    def _take_lock(self) -> None:
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another run is writing {self.output}; wait for it or choose another output") from None
        if not self.folder.exists() or os.stat(self.folder).st_ino != os.fstat(self._lock).st_ino:
            raise OutputError(f"another run has just finished {self.output}; run the same command again")

    def _check_own(self) -> None:
        names = {path.name for path in self.folder.iterdir()}
        if not self._identity.is_file() and names - {_IDENTITY_BEGUN}:
            raise OutputError(f"{self.folder} was made by no run; move it away or choose another output with -o")

    def _settle_replaced(self) -> None:
        """An output moved away by a run that was stopped returns to its place, or goes if the new one stands there."""
        if self._replaced.exists():
            if self.output.exists():
                remove_output(self._replaced)
            else:
                os.rename(self._replaced, self.output)

    def _check_same(
        self, identity: Mapping[str, Any], known: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    ) -> None:
        if lines := differences(known(self._found_identity()), known(json.loads(json.dumps(identity)))):
            raise OutputError(
                "\n".join([f"{self.folder} is the partial output of a different run:", *lines])
                + "\ndiscard it with --restart, or choose another output with -o"
            )

    def _found_identity(self) -> dict[str, Any]:
        try:
            found = json.loads(self._identity.read_bytes())
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise OutputError(f"{self._identity} is damaged; discard the partial output with --restart")
        return found

    def _discard(self) -> None:
        for folder in (self.model, self.scratch):
            if folder.exists():
                shutil.rmtree(folder)
        for path in self.folder.glob("journal*.jsonl"):
            path.unlink()

    def _write_identity(self, identity: Mapping[str, Any]) -> None:
        begun = self.folder / _IDENTITY_BEGUN
        with begun.open("w", encoding="utf-8") as file:
            json.dump(identity, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        begun.replace(self._identity)

    def written_bytes(self, scratch_bytes: int = 0) -> int:
        """Disk space that model and scratch already take, of scratch at most `scratch_bytes`: what a run needs of it.

        What lies in scratch is used again, or removed before anything takes its place.
        """
        return _taken(self.model) + min(_taken(self.scratch), scratch_bytes)

    def publish(self, *, overwrite: bool) -> None:
        """Rename the model to the output in one step; what stood there before goes only after that."""
        try:
            if overwrite and self.output.exists():
                os.rename(self.output, self._replaced)
            try:
                os.rename(self.model, self.output)
            except OSError:
                self._settle_replaced()
                raise
            sync_path(self.output.parent)
        except OSError as error:
            raise OutputError(
                f"cannot rename {self.model} to {self.output}: {error.strerror}; what is finished is kept there"
            ) from error
        self._clear()

    def clear_finished(self) -> None:
        """Remove what a run left that was stopped right after it had published."""
        if self._identity.is_file() and not self.model.exists():
            with contextlib.suppress(OSError, OutputError):
                self._take_lock()
                self._clear()
            self.close()

    def _clear(self) -> None:
        """Remove the run's own files, the identity last. What cannot be removed is left to a later run."""
        with contextlib.suppress(OSError):
            remove_output(self._replaced)
            self._discard()
            self._identity.unlink()
            self.folder.rmdir()

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _taken(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
