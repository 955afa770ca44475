"""What a repository may list."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schemegen.checkpoint.hub import listing as module
from schemegen.checkpoint.hub.listing import Entry, cached_listing, keep_listing, read_listing
from schemegen.errors import CheckpointError

DIGEST = "0" * 64
HUB = "https://huggingface.co"


def test_files_that_belong_to_a_checkout_are_left_out() -> None:
    names = ["b", ".gitattributes", ".git/config", "x/.cache/y", "a.lock", "__pycache__/m.pyc", "sub/b.txt"]
    assert [*read_listing((name, 1, DIGEST) for name in names)] == [".gitattributes", "b", "sub/b.txt"]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "a//b", "", "a\0b", "a\\b", "a\nb", None, 7])
def test_a_name_that_leads_out_is_refused(name: object) -> None:
    with pytest.raises(CheckpointError, match="which is no plain file name within the repository"):
        read_listing([(name, 1, DIGEST)])


@pytest.mark.parametrize(("size", "digest"), [(-1, DIGEST), (True, DIGEST), ("1", DIGEST), (1, "../../x"), (1, None)])
def test_a_size_or_digest_that_cannot_be_one_is_refused(size: object, digest: object) -> None:
    with pytest.raises(CheckpointError, match="without a size and a digest that could be its own"):
        read_listing([("a", size, digest)])


def test_a_listing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    with pytest.raises(CheckpointError, match="lists more than 2 files"):
        read_listing((f"{number}", 1, DIGEST) for number in iter(int, 1))


def test_digests_are_those_of_the_hub() -> None:
    large, small = Entry("a", 3, DIGEST).hasher(), Entry("a", 3, "0" * 40).hasher()
    for hasher in (large, small):
        hasher.update(b"abc")
    assert large.hexdigest() == hashlib.sha256(b"abc").hexdigest()
    # What `printf abc | git hash-object --stdin` says.
    assert small.hexdigest() == "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"


def test_a_listing_is_kept_by_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    listing = read_listing([("a", 1, DIGEST)])
    keep_listing(HUB, "o/n", "c" * 40, listing)
    assert cached_listing(HUB, "o/n", "c" * 40) == listing
    assert cached_listing(HUB, "o/n", "d" * 40) is None
    assert cached_listing(HUB, "o/m", "c" * 40) is None


def test_what_one_hub_lists_says_nothing_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    mirror = "https://me:secret@mirror.example/../x"
    keep_listing(mirror, "o/n", "c" * 40, read_listing([("a", 1, DIGEST)]))
    assert cached_listing(HUB, "o/n", "c" * 40) is None
    assert cached_listing(mirror, "o/n", "c" * 40) is not None
    assert "secret" not in str([*tmp_path.rglob("*")])


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_one_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    opened = os.fdopen

    def full(number: int, *args: Any, **kwargs: Any) -> Any:
        file = opened(number, *args, **kwargs)

        def refuse(text: str) -> None:
            raise error

        file.write = refuse
        return file

    monkeypatch.setattr(os, "fdopen", full)
    with suppress(KeyboardInterrupt):
        keep_listing(HUB, "o/n", "c" * 40, {})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"version": 1}', b'{"version": 1, "files": [["../x", 1, "0"]]}', b"\xff"]
)
def test_a_damaged_one_is_as_good_as_missing(text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    keep_listing(HUB, "o/n", "c" * 40, {})
    next(tmp_path.rglob("*.json")).write_bytes(text)
    assert cached_listing(HUB, "o/n", "c" * 40) is None


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    keep_listing(HUB, "o/n", "c" * 40, {})
    assert cached_listing(HUB, "o/n", "c" * 40) is None
