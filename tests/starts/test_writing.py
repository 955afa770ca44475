"""A start is written whole or not at all, and touches nothing that is there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from schemegen.errors import OutputError
from schemegen.starts import Start, write_start

START = Start("acme", {"a.txt": "a\n", "deep/er/b.txt": "b\n"}, ())


def test_all_files_are_there_and_readable_to_all_who_may(tmp_path: Path) -> None:
    folder = write_start(START, tmp_path / "new")
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.txt")} == set(START.files)
    assert (folder / "deep" / "er" / "b.txt").read_text() == "b\n"
    (tmp_path / "plain").mkdir()
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_without_a_folder_it_goes_into_one_of_its_name_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_start(START) == tmp_path / "acme"


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        with pytest.raises(OutputError, match=rf"/{name} exists; choose another folder with -o"):
            write_start(START, tmp_path / name)
    with pytest.raises(OutputError, match=r"there is no folder .*/none to write new into"):
        write_start(START, tmp_path / "none" / "new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "link"]


def test_a_folder_that_nobody_may_write_into_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdtemp(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("schemegen.starts.writing.tempfile.mkdtemp", mkdtemp)
    with pytest.raises(OutputError, match=r"cannot write .*/new: Permission denied; choose another folder with -o"):
        write_start(START, tmp_path / "new")


def test_nothing_is_left_of_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write_text(path: Path, *_: object, **__: object) -> None:
        written.append(path)
        if len(written) > 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OutputError, match=r"cannot write .*/new: No space left on device; choose another"):
        write_start(START, tmp_path / "new")
    assert len(written) == 2
    assert list(tmp_path.iterdir()) == []
