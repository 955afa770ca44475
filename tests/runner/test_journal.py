"""The journal survives being cut off anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemegen.runner.journal import Journal


def write(folder: Path, **entries: tuple[str, ...]) -> bytes:
    journal = Journal(folder)
    for key, digests in entries.items():
        journal.append(key, digests)
    journal.close()
    return (folder / "journal.jsonl").read_bytes()


def read(folder: Path) -> dict[str, tuple[str, ...]]:
    journal = Journal(folder)
    journal.close()
    return dict(journal.done)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    write(tmp_path, a=("1", "2"), b=("3",))
    assert read(tmp_path) == {"a": ("1", "2"), "b": ("3",)}


def test_a_journal_cut_at_any_byte_loses_only_what_was_cut(tmp_path: Path) -> None:
    whole = write(tmp_path, first=("1",), second=("2",))
    complete = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        (tmp_path / "journal.jsonl").write_bytes(whole[:cut])
        found = read(tmp_path)
        assert ("first" in found) == (cut >= complete - 1)
        assert set(found) <= {"first", "second"}


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    whole = write(tmp_path, first=("1",))
    (tmp_path / "journal.jsonl").write_bytes(whole[:-4])
    write(tmp_path, second=("2",))
    assert read(tmp_path) == {"second": ("2",)}


@pytest.mark.parametrize("line", [b"{}", b"[]", b'["key"]', b'["key", 1]', b"\xff\xfe", b"null", b'"key"'])
def test_lines_of_another_kind_are_passed_over(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "journal.jsonl").write_bytes(line + b'\n["a", "1"]\n')
    assert read(tmp_path) == {"a": ("1",)}


def test_journals_of_several_machines_merge(tmp_path: Path) -> None:
    write(tmp_path, a=("1",))
    (tmp_path / "journal.jsonl").rename(tmp_path / "journal-other.jsonl")
    write(tmp_path, b=("2",))
    assert read(tmp_path) == {"a": ("1",), "b": ("2",)}
