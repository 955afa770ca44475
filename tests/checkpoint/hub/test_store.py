"""The Hub client's cache as it lies on disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from schemegen.checkpoint.hub.listing import Entry
from schemegen.checkpoint.hub.store import Store, keep_commit, known_commit, known_repos

COMMIT = "c" * 40
ENTRY = Entry("sub/a.txt", 3, "d" * 64)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A cache that is empty."""
    return Store(tmp_path / "hub", "o/n", COMMIT)


def come(store: Store, data: bytes) -> None:
    """Have bytes of the file come."""
    with store.partial(ENTRY) as part:
        part.append(data)


def test_a_file_grows_and_becomes_part_of_the_snapshot(store: Store) -> None:
    come(store, b"a")
    assert (store.found(ENTRY), store.partial_bytes(ENTRY), store.missing_bytes(ENTRY)) == (None, 1, 2)
    assert store.head(ENTRY, 9) == b"a"
    come(store, b"bc")
    assert store.head(ENTRY, 2) == b"ab"
    store.keep(ENTRY)
    assert store.found(ENTRY) == store.cache / "models--o--n" / "blobs" / ENTRY.digest
    store.link(ENTRY)
    pointer = store.snapshot / "sub" / "a.txt"
    assert store.found(ENTRY) == pointer
    assert store.missing_bytes(ENTRY) == 0
    assert str(pointer.readlink()) == f"../../../blobs/{ENTRY.digest}"
    assert pointer.read_bytes() == b"abc" == store.head(ENTRY, 9)
    store.link(ENTRY)


def test_nothing_has_no_head(store: Store) -> None:
    assert store.head(ENTRY, 5) == b""
    assert store.missing_bytes(ENTRY) == 3


def test_without_links_the_file_itself_stands_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    come(store, b"abc")
    store.keep(ENTRY)
    store.link(ENTRY)
    pointer = store.snapshot / "sub" / "a.txt"
    assert pointer.read_bytes() == b"abc"
    assert not pointer.is_symlink()
    assert store.found(ENTRY) == pointer


def test_a_link_that_leads_nowhere_is_replaced(store: Store) -> None:
    pointer = store.snapshot / "sub" / "a.txt"
    pointer.parent.mkdir(parents=True)
    pointer.symlink_to("gone")
    come(store, b"abc")
    store.keep(ENTRY)
    store.link(ENTRY)
    assert pointer.read_bytes() == b"abc"


def test_a_partial_file_that_is_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    come(store, b"")
    partial = next(store.cache.rglob("*.incomplete"))
    partial.unlink()
    partial.symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        come(store, b"abc")
    assert other.read_bytes() == b""


def test_one_process_has_a_file_at_a_time(store: Store) -> None:
    with store.locked(ENTRY, wait=True) as first:
        assert first
        with store.locked(ENTRY, wait=False) as second:
            assert not second
    with store.locked(ENTRY, wait=False) as again:
        assert again


def test_what_has_come_is_thrown_away_unless_another_process_goes_on(store: Store) -> None:
    store.forget_begun(ENTRY)
    assert not store.cache.exists()
    come(store, b"a")
    with store.locked(ENTRY, wait=True):
        store.forget_begun(ENTRY)
    assert store.partial_bytes(ENTRY) == 1
    store.forget_begun(ENTRY)
    assert store.partial_bytes(ENTRY) == 0


def test_a_commit_is_kept_by_revision(tmp_path: Path) -> None:
    for revision in ("main", "refs/pr/1"):
        assert known_commit(tmp_path, "o/n", revision) is None
        keep_commit(tmp_path, "o/n", revision, COMMIT)
        assert known_commit(tmp_path, "o/n", revision) == COMMIT
        assert (tmp_path / "models--o--n" / "refs" / revision).read_text() == COMMIT
    keep_commit(tmp_path, "o/n", "main", "d" * 40)
    assert known_commit(tmp_path, "o/n", "main") == "d" * 40
    assert [path.name for path in (tmp_path / "models--o--n" / "refs").iterdir() if path.is_file()] == ["main"]


@pytest.mark.parametrize("revision", ["../../x", "/x", "a/../b", ""])
def test_a_revision_that_leads_out_is_not_kept(tmp_path: Path, revision: str) -> None:
    keep_commit(tmp_path / "hub", "o/n", revision, COMMIT)
    assert known_commit(tmp_path / "hub", "o/n", revision) is None
    assert not [*tmp_path.iterdir()]


def test_a_damaged_reference_is_as_good_as_missing(tmp_path: Path) -> None:
    keep_commit(tmp_path, "o/n", "main", COMMIT)
    (tmp_path / "models--o--n" / "refs" / "main").write_text("../../x")
    assert known_commit(tmp_path, "o/n", "main") is None


def test_models_in_the_cache_are_known(tmp_path: Path) -> None:
    for name in ("models--o--n", "models--p--q-r", "datasets--x--y", ".locks"):
        (tmp_path / name).mkdir()
    assert sorted(known_repos(tmp_path)) == ["o/n", "p/q-r"]
    assert known_repos(tmp_path / "missing") == []
