"""Files and JSON of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemegen.checkpoint.reading import parse_object, read_text, reading, require_utf8
from schemegen.errors import CheckpointError


def test_text_is_kept_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\r\ntwo \xc3\xa9\n")
    assert read_text(tmp_path / "x", "x") == "one\r\ntwo é\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbf{}", "begins with a byte order mark, which loaders refuse; save it as plain UTF-8"),
        (b"ab\xff", r"is not UTF-8 \(byte 2\); download it again"),
    ],
)
def test_other_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CheckpointError, match=f"^file x {message}"):
        read_text(tmp_path / "x", "file x")


def test_a_huge_text_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(CheckpointError, match="larger than 100,000,000 bytes"):
        read_text(tmp_path / "x", "file x")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(CheckpointError, match="file x is not a regular file"):
        read_text(tmp_path / "x", "file x")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"file x cannot be read \(no such file or directory\)"):
        read_text(tmp_path / "x", "file x")


def test_an_error_of_the_system_is_told_in_one_line() -> None:
    with pytest.raises(CheckpointError, match=r"^disk cannot be read"), reading("disk"):
        raise PermissionError(13, "Permission denied")


def test_infinity_is_a_value_that_configs_hold() -> None:
    assert parse_object('{"time_step_limit": [0.0, Infinity]}', "x")["time_step_limit"][1] == float("inf")


def test_a_whole_character_may_be_spelled_by_two_escapes() -> None:
    assert parse_object(r'{"a": "\ud83d\ude00"}', "x") == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "holds no JSON object"),
        ("", "cannot be read as JSON"),
        ("{} {}", "cannot be read as JSON"),
        ('{"a": 1, "b": 2, "a": 3}', "key 'a' stands twice"),
        ('{"x": {"a": 1, "a": 1}}', "key 'a' stands twice"),
        (r'{"a": "\ud800"}', "half a character"),
        (r'{"\uDFFF": 1}', "half a character"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "cannot be read as JSON"),
    ],
)
def test_json_that_is_damaged_or_ambiguous_is_refused(text: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^file x .*{message}.*; download it again$"):
        parse_object(text, "file x")


@pytest.mark.parametrize(("levels", "fits"), [(100, True), (101, False), (900, False)])
@pytest.mark.parametrize(("begin", "end"), [('{"a":', "}"), ("[", "]")])
def test_nesting_has_a_limit(levels: int, fits: bool, begin: str, end: str) -> None:
    text = '{"x": ' + begin * (levels - 1) + "1" + end * (levels - 1) + "}"
    if fits:
        assert "x" in parse_object(text, "file x")
        return
    with pytest.raises(CheckpointError, match="file x is nested too deeply"):
        parse_object(text, "file x")


def test_a_name_that_is_not_unicode_is_refused_with_a_way_out() -> None:
    with pytest.raises(CheckpointError, match=r"folder name b'caf\\xe9' is not UTF-8; rename it"):
        require_utf8(os.fsdecode(b"caf\xe9"), "folder", "rename it")
