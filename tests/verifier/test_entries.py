"""Whatever stands in an output is named for what it is, and no link is followed."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

Findings = Callable[..., list[str]]
SHARD = "model-00001-of-00003.safetensors"


@pytest.mark.parametrize("name", ["extra", "sub/extra", "model-00009.safetensors"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: path.symlink_to(path.parent), "a link"),
        (lambda path: path.symlink_to("nowhere"), "a link"),
        (lambda path: path.symlink_to("/dev/zero"), "a link"),
        (lambda path: os.mkfifo(path), "a pipe"),
    ],
)
def test_what_is_too_much_is_called_what_it_is(
    output: Path, findings: Findings, name: str, make: Callable[[Path], None], kind: str
) -> None:
    (output / name).parent.mkdir(exist_ok=True)
    make(output / name)
    assert findings(output) == [f"{name} is {kind}, and nothing of this output: remove it"]


def test_a_name_cannot_spell_a_finding(output: Path, findings: Findings) -> None:
    (output / "a\n\x1b[2Jconfig.json is missing").touch()
    (output / os.fsdecode(b"\xff")).touch()
    assert [finding.split(" is no file")[0] for finding in findings(output)] == [
        "'a\\n\\x1b[2Jconfig.json is missing'",
        "'\\udcff'",
    ]


def test_a_folder_that_cannot_be_read_is_told(
    output: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "examples":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert findings(output) == [
        "folder examples cannot be read: Permission denied; make it readable",
        "examples/prompt.txt is missing",
    ]


def test_a_socket_is_one(output: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(output)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        assert findings(output) == ["s is a socket, and nothing of this output: remove it"]


def test_a_linked_folder_of_weights_is_not_followed(output: Path, tmp_path: Path, findings: Findings) -> None:
    (tmp_path / "weights").mkdir()
    shutil.copy(output / SHARD, tmp_path / "weights")
    (output / "more").symlink_to(tmp_path / "weights")
    assert findings(output) == ["more is a link, and nothing of this output: remove it"]


@pytest.mark.parametrize("name", [SHARD, "config.json", "tokenizer.json", "schemegen.json"])
def test_a_listed_file_has_to_be_one(output: Path, tmp_path: Path, findings: Findings, name: str) -> None:
    shutil.move(output / name, tmp_path / "elsewhere")
    (output / name).symlink_to(tmp_path / "elsewhere")
    assert findings(output) == [f"{name} is a link, not a file; put the file itself there"]


@pytest.mark.parametrize("name", [SHARD, "config.json", "tokenizer.json"])
@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "a pipe"), (os.mkdir, "a folder")])
def test_a_listed_file_that_would_hang_is_not_opened(
    output: Path, findings: Findings, name: str, make: Callable[[Path], None], kind: str
) -> None:
    (output / name).unlink()
    make(output / name)
    assert f"{name} is {kind}, not a file; put the file itself there" in findings(output)


def test_a_listed_file_behind_a_linked_folder_is_missing(output: Path, tmp_path: Path, findings: Findings) -> None:
    shutil.move(output / "examples", tmp_path)
    (output / "examples").symlink_to(tmp_path / "examples")
    assert findings(output) == [
        "examples/prompt.txt is missing",
        "examples is a link, and nothing of this output: remove it",
    ]


def test_the_links_of_a_hub_cache_are_files(output: Path, tmp_path: Path, findings: Findings) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "1", tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    snapshot.parent.mkdir()
    output.rename(snapshot)
    shutil.move(snapshot / SHARD, blobs / "0123")
    (snapshot / SHARD).symlink_to("../../blobs/0123")
    assert findings(snapshot) == []
    (snapshot / "evil.py").symlink_to("../../blobs/0123")
    assert findings(snapshot) == ["evil.py is no file of this output; loaders may read it: remove it"]
    (blobs / "0123").unlink()
    assert findings(snapshot)[0] == f"{SHARD} is a link, not a file; put the file itself there"


def test_the_blobs_of_a_hub_cache_may_lie_elsewhere(output: Path, tmp_path: Path, findings: Findings) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "1", tmp_path / "models--a--b" / "blobs"
    snapshot.parent.mkdir(parents=True)
    (tmp_path / "disk").mkdir()
    blobs.symlink_to(tmp_path / "disk")
    output.rename(snapshot)
    shutil.move(snapshot / SHARD, blobs / ("0" * 64))
    (snapshot / SHARD).symlink_to("../../blobs/" + "0" * 64)
    assert findings(snapshot) == []
    (blobs / ("0" * 64)).rename(blobs / "secret")
    (snapshot / SHARD).unlink()
    (snapshot / SHARD).symlink_to("../../blobs/secret")
    assert findings(snapshot)[0] == f"{SHARD} is a link, not a file; put the file itself there"


@pytest.mark.parametrize(
    "name",
    [
        ".git/HEAD",
        "__pycache__/x.pyc",
        "examples/.DS_Store",
        "examples/.cache/x",
        ".gitattributes",
    ],
)
def test_what_belongs_to_a_checkout_or_a_desktop_is_left_alone(output: Path, findings: Findings, name: str) -> None:
    (output / name).parent.mkdir(exist_ok=True)
    (output / name).touch()
    assert findings(output) == []
