"""Room for the output and for the download that it is made from."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import OutputError
from schemegen.progress import Progress
from schemegen.runner import space
from schemegen.runner.space import check_space

GB = 10**9
Usage = namedtuple("Usage", "total used free")


@dataclass(frozen=True)
class Download:
    """A download of so many bytes into a folder."""

    folder: Path
    missing_bytes: int

    def fetch(self, checkpoint: Checkpoint, progress: Progress) -> Checkpoint:
        """Not asked for here."""
        raise NotImplementedError


def disks(monkeypatch: pytest.MonkeyPatch, **free: int) -> None:
    """Have a file system of its own, with so many bytes free, for each folder of these names."""
    number = {name: position for position, name in enumerate(free, 100)}
    stat = os.stat

    def disk(path: object) -> str:
        return next((part for part in reversed(Path(str(path)).parts) if part in free), "")

    def found(path: Path) -> os.stat_result:
        values = list(stat(path))
        values[2] = number.get(disk(path), values[2])
        return os.stat_result(values)

    monkeypatch.setattr(space, "os", SimpleNamespace(stat=found))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free[disk(path)]))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for outputs and one for the cache."""
    for name in ("out", "cache"):
        (tmp_path / name).mkdir()
    return tmp_path / "out" / "model", tmp_path / "cache" / "hub"


def test_without_a_download_only_the_output_counts(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    output, cache = places
    disks(monkeypatch, out=10 * GB, cache=0)
    for remote in (None, Download(cache, 0)):
        check_space(output, output, 10 * GB, remote)
        with pytest.raises(
            OutputError, match=r"model needs 11\.00 GB more and 10\.00 GB are free; make room or choose"
        ):
            check_space(output, output, 11 * GB, remote)


def test_on_two_disks_each_needs_room(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    output, cache = places
    disks(monkeypatch, out=10 * GB, cache=20 * GB)
    check_space(output, output, 10 * GB, Download(cache, 20 * GB))
    with pytest.raises(OutputError, match=r"model needs 11\.00 GB more and 10\.00 GB are free"):
        check_space(output, output, 11 * GB, Download(cache, 20 * GB))
    with pytest.raises(OutputError, match=r"into \S+hub needs 21\.00 GB more and 20\.00 GB are free; .*HF_HUB_CACHE"):
        check_space(output, output, 10 * GB, Download(cache, 21 * GB))


def test_on_one_disk_both_need_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    output, cache = tmp_path / "one" / "out" / "model", tmp_path / "one" / "cache"
    disks(monkeypatch, one=30 * GB)
    check_space(output, output, 10 * GB, Download(cache, 20 * GB))
    with pytest.raises(OutputError, match=r"download that it is made from need 31\.00 GB more and 30\.00 GB are free"):
        check_space(output, output, 11 * GB, Download(cache, 20 * GB))
