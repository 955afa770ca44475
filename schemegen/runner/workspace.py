"""The folder a run works in, `<out>.partial`: locked, bound to one run, renamed to the output when all is done."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import OutputError
from schemegen.manifest import MANIFEST_NAME

#: Inside the partial folder: what belongs to the run and never travels.
STATE_FOLDER: Final = ".schemegen"
_IDENTITY: Final = "run.json"


def check_output_place(output: Path, checkpoint: Checkpoint) -> None:
    """Refuse an output that is, holds, or lies in the source, or in the cache folder that the source links into."""
    if output.is_symlink():
        raise OutputError(f"output {output} is a link; give the folder itself")
    place = output.resolve()
    for source in sorted(
        {checkpoint.root.resolve(), *(checkpoint.path(s.name).resolve().parent for s in checkpoint.shards)}
    ):
        if place == source or source in place.parents or place in source.parents or _same_folder(place, source):
            raise OutputError(f"output {output} overlaps the source {source}; choose a folder apart from it")


def _same_folder(place: Path, source: Path) -> bool:
    return place.exists() and source.exists() and place.samefile(source)


class Workspace:
    """The partial folder of one output, held by one process at a time."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(output.name + ".partial")
        self._lock: int | None = None

    @property
    def state(self) -> Path:
        """Where journal and identity lie."""
        return self.folder / STATE_FOLDER

    def enter(self, identity: Mapping[str, Any], *, restart: bool) -> bool:
        """Take the folder for the run that `identity` describes: a new one, or the same run's unfinished one.

        True for a folder that a run has sealed, and that lacks nothing but its final name.
        """
        try:
            return self._enter(identity, restart)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            raise OutputError(f"cannot use {self.folder}: {error.strerror}; choose another output with -o") from error

    def _enter(self, identity: Mapping[str, Any], restart: bool) -> bool:
        if self.folder.is_symlink():
            raise OutputError(f"{self.folder} is a link; remove it or choose another output")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        found = self._found_identity()
        if restart:
            self._discard()
        elif found is not None:
            self._check_same(found, identity)
        elif (self.folder / MANIFEST_NAME).exists():
            return True
        elif any(path.name != STATE_FOLDER for path in self.folder.iterdir()):
            raise OutputError(f"{self.folder} holds files of no known run; remove it, or discard it with --restart")
        self._write_identity(identity)
        return False

    def _take_lock(self) -> None:
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another run is writing {self.output}; wait for it or choose another output") from None
        if not self.folder.exists() or os.stat(self.folder).st_ino != os.fstat(self._lock).st_ino:
            raise OutputError(f"another run has just finished {self.output}; run the same command again")

    def _found_identity(self) -> dict[str, Any] | None:
        path = self.state / _IDENTITY
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_bytes())
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise OutputError(f"{path} is damaged; discard the partial output with --restart")
        return found

    def _check_same(self, found: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
        wanted = json.loads(json.dumps(identity))
        differ = [name for name in wanted.keys() | found.keys() if found.get(name) != wanted.get(name)]
        if differ:
            lines = [
                f"  {name}: there {_brief(found.get(name))}, now {_brief(wanted.get(name))}" for name in sorted(differ)
            ]
            raise OutputError(
                "\n".join([f"{self.folder} is the partial output of a different run:", *lines])
                + "\ndiscard it with --restart, or choose another output with -o"
            )

    def _discard(self) -> None:
        # The manifest goes first: a folder without one is never taken for sealed, whatever is left of it.
        (self.folder / MANIFEST_NAME).unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
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
        """Disk space that the folder's files already take."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.rglob("*") if path.is_file())

    def publish(self, *, overwrite: bool) -> None:
        """Remove the run's state and give the folder its final name; an old output goes only then."""
        replaced = self.output.with_name(f".{self.output.name}.replaced")
        try:
            if self.state.exists():
                shutil.rmtree(self.state)
            if overwrite and self.output.exists():
                shutil.rmtree(replaced, ignore_errors=True)
                os.rename(self.output, replaced)
            os.rename(self.folder, self.output)
            _sync_folder(self.output.parent)
            shutil.rmtree(replaced, ignore_errors=True)
        except OSError as error:
            raise OutputError(
                f"cannot rename {self.folder} to {self.output}: {error.strerror}; run the same command again"
            ) from error

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
