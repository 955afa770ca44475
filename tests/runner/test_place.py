"""An output stands apart from its source, whatever names lead there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemegen.checkpoint import open_checkpoint
from schemegen.errors import OutputError
from schemegen.runner.place import check_output_place, settled


@pytest.fixture
def model(tmp_path: Path, sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of the test's own, with a link to it and one to nowhere beside it; the working folder is theirs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    (tmp_path / "alias").symlink_to(tmp_path / "elsewhere")
    return Path(shutil.copytree(sample_folder, tmp_path / "model"))


@pytest.mark.parametrize("place", ["model", "model/out", "model/../model", ".", "link", "link/out", "alias"])
def test_outputs_that_meet_the_source_are_refused(model: Path, place: str) -> None:
    with pytest.raises(OutputError, match=r"overlaps the source|is a link"):
        check_output_place(settled(Path(place)), open_checkpoint(str(model)))


def test_an_output_apart_is_taken(model: Path, tmp_path: Path) -> None:
    check_output_place(tmp_path / "apart", open_checkpoint(str(model)))
    check_output_place(tmp_path / "new/deep/apart", open_checkpoint(str(model)))


@pytest.mark.parametrize("name", ["out.partial", "out.partial/model"])
def test_a_source_where_the_run_would_work_is_refused(model: Path, tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    source.parent.mkdir(exist_ok=True)
    model.rename(source)
    with pytest.raises(OutputError, match="overlaps the source"):
        check_output_place(tmp_path / "out", open_checkpoint(str(source)))


def test_the_blobs_of_a_cache_are_part_of_the_source(model: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "models--a--b/blobs", tmp_path / "models--a--b/snapshots/r"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in model.iterdir():
        if path.is_file():
            path.rename(blobs / path.name)
            (snapshot / path.name).symlink_to(blobs / path.name)
    with pytest.raises(OutputError, match="overlaps the source"):
        check_output_place(blobs / "out", open_checkpoint(str(snapshot)))


@pytest.fixture
def mounted(model: Path, tmp_path: Path) -> Iterator[Path]:
    """The model's folder bound to a second place."""
    second = tmp_path / "bound"
    second.mkdir()
    if os.geteuid() or subprocess.run(["mount", "--bind", model, second], capture_output=True, check=False).returncode:
        pytest.skip("bind mounts are not allowed here")
    yield second
    subprocess.run(["umount", second], check=True)


def test_bind_mounts_are_seen_through(model: Path, mounted: Path) -> None:
    for place in (mounted, mounted / "out"):
        with pytest.raises(OutputError, match="overlaps the source"):
            check_output_place(place, open_checkpoint(str(model)))


def test_dots_and_roots_are_settled_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    assert settled(Path("out")) == Path("out")
    assert settled(Path("..")) == tmp_path
    assert settled(Path("b/..")) == tmp_path / "a"
    with pytest.raises(OutputError, match="root of the disk"):
        settled(Path(os.sep))
    with pytest.raises(OutputError, match="too long a name"):
        settled(Path("x" * 250))
