"""Copies keep contents and report what cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemegen.digests import file_digest
from schemegen.errors import CheckpointError, OutputError
from schemegen.seal.durable import copy_file, sync, write_file


def test_a_copy_has_the_bytes_and_not_the_rights(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "er" / "target"
    source.write_bytes(os.urandom(3_000_001))
    source.chmod(0o700)
    assert copy_file(source, target, 3_000_001) == file_digest(source)
    assert target.read_bytes() == source.read_bytes()
    assert not target.stat().st_mode & 0o111


def test_half_a_character_is_written_as_unknown(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "a", "é\ud800x\ud83d\ude00\r\n")
    assert (tmp_path / "a").read_bytes().decode() == "é\ufffdx\U0001f600\r\n"
    assert digest == file_digest(tmp_path / "a")


def test_a_copy_replaces_what_an_earlier_run_left(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"short")
    target.write_bytes(b"something longer")
    copy_file(source, target, 5)
    assert target.read_bytes() == b"short"


def test_a_file_that_changed_is_no_copy(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"12345")
    with pytest.raises(CheckpointError, match=r"source.*changed"):
        copy_file(tmp_path / "source", tmp_path / "target", 4)


def test_a_file_that_went_is_the_sources_fault(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="gone"):
        copy_file(tmp_path / "gone", tmp_path / "target", 4)


def test_a_place_that_takes_nothing_is_the_outputs_fault(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"12345")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        copy_file(tmp_path / "source", tmp_path / "file" / "target", 5)
    with pytest.raises(OutputError, match="cannot write"):
        write_file(tmp_path / "missing" / "target", "text")
    with pytest.raises(OutputError, match="cannot write"):
        sync(tmp_path, ["missing"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"1" * (1 << 22))
    (tmp_path / "target").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"No space left.*run the same command again"):
        copy_file(tmp_path / "source", tmp_path / "target", 1 << 22)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here to name a descriptor's file")
def test_files_and_all_folders_on_the_way_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).touch()
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    sync(tmp_path, ["a/b/c", "e"])
    expected = [tmp_path / "a/b/c", tmp_path / "e", tmp_path / "a/b", tmp_path / "a", tmp_path]
    assert flushed == [str(path) for path in expected]
