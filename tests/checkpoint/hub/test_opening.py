"""A model on the Hub, opened from headers: what is asked for, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.hub.transfer import GUESS_BYTES
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint, SideFile, Unindexed
from schemegen.errors import CheckpointError
from schemegen.progress import Silent

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]
NEEDED = ["config.json", "model.safetensors.index.json", "one.safetensors", "two.safetensors", "vocab.txt"]


def opened(revision: str | None = None) -> Checkpoint:
    """The model, from headers."""
    return open_checkpoint(REPO, revision)


def fetched(revision: str | None = None) -> Checkpoint:
    """The model, on disk."""
    return opened(revision).fetched(Silent())


def test_it_is_the_folder_as_far_as_headers_tell(hub: LoopbackHub, toy_files: Files, toy: Path) -> None:
    commit = hub.add(REPO, toy_files).commit
    (toy / "vocab.txt").write_bytes(toy_files["vocab.txt"])
    here, there = open_local(toy), opened()
    assert (there.model_id, there.revision) == (REPO, commit)
    same = replace(here, root=there.root, model_id=REPO, revision=commit, remote=there.remote)
    assert replace(there, shards=()) == replace(same, shards=())
    assert [replace(shard, mtime_ns=0) for shard in here.shards] == [*there.shards]


def test_opening_fetches_texts_and_headers_and_no_more(hub: LoopbackHub, sample_folder: Path) -> None:
    repo = hub.add(REPO, sample_folder)
    opened()
    shards = {name: GUESS_BYTES for name in repo.files if name.endswith(".safetensors")}
    texts = {name: len(repo.files[name]) for name in ("config.json", "model.safetensors.index.json")}
    assert hub.sent == shards | texts


def test_opening_again_asks_only_which_commit_it_is(hub: LoopbackHub, toy_files: Files) -> None:
    commit = hub.add(REPO, toy_files).commit
    first = opened()
    hub.forget()
    assert opened() == first
    assert [path for _, path, _ in hub.requests] == [f"/api/models/{REPO}/revision/main"]
    hub.forget()
    assert opened(commit).tensors == first.tensors
    assert hub.requests == []


def test_a_header_longer_than_the_guess_is_read_whole(
    hub: LoopbackHub, write_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    tensors = {f"model.layers.{number}.weight": ("F32", (1,), b"1234") for number in range(2000)}
    hub.add(REPO, write_checkpoint(tmp_path / "long", tensors, {"model_type": "toy"}))
    assert len(opened().tensors) == 2000
    assert GUESS_BYTES < hub.sent["model.safetensors"] < 2 * GUESS_BYTES + 100_000


def test_a_revision_is_resolved_and_pinned(hub: LoopbackHub, toy_files: Files) -> None:
    repo = hub.add(REPO, toy_files, refs={"main": "1" * 40, "v1": "2" * 40, "refs/pr/1": "3" * 40})
    assert opened().revision == "1" * 40
    assert opened("v1").revision == "2" * 40
    assert opened("refs/pr/1").revision == "3" * 40
    assert open_checkpoint(f"{hub.url}/{REPO}/tree/v1").revision == "2" * 40
    checkpoint = opened()
    repo.refs.update(main="4" * 40, before="1" * 40)
    hub.forget()
    assert checkpoint.fetched(Silent()).revision == "1" * 40
    assert not any("4" * 40 in path or "main" in path for _, path, _ in hub.requests)


def test_a_renamed_repository_has_its_own_name(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    hub.repos["old/name"] = hub.repos[REPO]
    checkpoint = open_checkpoint("old/name")
    assert (checkpoint.model_id, checkpoint.notes) == (REPO, (f"old/name is {REPO} on the Hub",))


def test_an_mtp_block_outside_the_index_is_noticed(
    hub: LoopbackHub, toy_files: Files, write_shard: Callable[..., Path], tmp_path: Path
) -> None:
    extra = write_shard(tmp_path / "x", {"mtp.fc.weight": ("I8", (9,), b"a" * 9)}).read_bytes()
    hub.add(REPO, {**toy_files, "mtp.safetensors": extra, "bad.safetensors": b"1234567890", "x.bin": b"b"})
    expected = [("bad.safetensors", 10, False), ("mtp.safetensors", len(extra), True), ("x.bin", 1, False)]
    assert opened().unindexed == tuple(Unindexed(*facts) for facts in expected)
    there = fetched()
    assert there.unindexed == opened().unindexed
    assert there.side_files == (SideFile("vocab.txt", 4),)
    assert sorted(path.name for path in there.root.iterdir()) == NEEDED


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("one.safetensors", lambda data: data[:-1], r"Qwen/Tiny on the Hub: shard 'one\.safetensors' is cut short"),
        ("one.safetensors", lambda data: b"\xff" * 8 + data, r"announces a header of 18,446,744,073,709,551,615 bytes"),
        ("one.safetensors", lambda data: b"version https://git-lfs.github.com", r"is a Git LFS pointer"),
        ("one.safetensors", lambda data: b"", r"is 0 bytes long, too short for a header"),
        ("config.json", lambda data: b"[" * 5000, r"Qwen/Tiny on the Hub: config\.json"),
        ("config.json", lambda data: b'{"a": 1, "a": 2}', r"key 'a' stands twice"),
        (
            "model.safetensors.index.json",
            lambda data: json.dumps({"weight_map": {"a": "../../x.safetensors"}}).encode(),
            r"which is no plain file name within the folder",
        ),
        (
            "model.safetensors.index.json",
            lambda data: data.replace(b"two.safetensors", b"three.safetensors"),
            r"names 'three\.safetensors', which is not there",
        ),
    ],
)
def test_hostile_contents_are_refused_as_in_a_folder(
    hub: LoopbackHub, toy_files: Files, name: str, change: Callable[[bytes], bytes], says: str
) -> None:
    hub.add(REPO, {**toy_files, name: change(toy_files[name])})
    with pytest.raises(CheckpointError, match=says):
        opened()


def test_texts_that_are_too_large_are_not_fetched(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from schemegen.checkpoint.hub import opening

    monkeypatch.setattr(opening, "MAX_JSON_BYTES", 10)
    hub.add(REPO, toy_files)
    with pytest.raises(CheckpointError, match=r"Qwen/Tiny on the Hub: config\.json is larger than 10 bytes"):
        opened()
    assert hub.sent == {}


def test_a_repository_that_lists_a_way_out_is_refused(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, {**toy_files, "../x": b""})
    with pytest.raises(
        CheckpointError, match=r"Qwen/Tiny on the Hub lists a file '\.\./x', which is no plain file name"
    ):
        opened()


@pytest.mark.parametrize("begin", [b"<html>" * 20, (10).to_bytes(8, "little") + b"{" * 200])
def test_a_beginning_that_came_from_elsewhere_is_not_kept(hub: LoopbackHub, toy_files: Files, begin: bytes) -> None:
    hub.add(REPO, toy_files)
    size = len(toy_files["one.safetensors"])
    other = begin.ljust(size)[:size]
    hub.faults.append(Fault("/cdn/.*/one", 206, {"Content-Range": f"bytes 0-{size - 1}/{size}"}, other))
    with pytest.raises(CheckpointError) as caught:
        opened()
    assert str(caught.value).startswith(f"{REPO} on the Hub: ")
    assert str(caught.value).endswith(
        "; run the same command again; if that does not help, choose another --revision or model"
    )
    assert "download" not in str(caught.value)
    hub.faults.clear()
    assert len(opened().tensors) == 3


def test_a_mirror_that_lists_other_files_does_not_speak_for_the_hub(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    repo = hub.add(REPO, toy_files)
    with LoopbackHub().running() as mirror:
        mirror.add(REPO, toy_files, refs={"main": repo.commit}, listed={"one.safetensors": b"x" * 999})
        with monkeypatch.context() as patch:
            patch.setattr(constants, "ENDPOINT", mirror.url)
            patch.setattr(
                constants, "HUGGINGFACE_CO_URL_TEMPLATE", mirror.url + "/{repo_id}/resolve/{revision}/{filename}"
            )
            with pytest.raises(CheckpointError, match="listed with 999 bytes"):
                opened()
    assert opened().revision == repo.commit


def test_a_page_that_came_for_a_header_does_no_lasting_harm(hub: LoopbackHub, toy_files: Files, cache: Path) -> None:
    """A short page of a proxy, kept by an earlier run as a file's beginning, is not one for long."""
    hub.add(REPO, toy_files)
    entry = next(item for item in hub.repos[REPO].tree() if item["path"] == "one.safetensors")
    blobs = cache / "models--Qwen--Tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{entry['lfs']['oid']}.schemegen.incomplete").write_bytes(b"<html>blocked</html>")
    assert len(opened().tensors) == 3


def test_a_page_without_a_length_is_no_beginning(hub: LoopbackHub, toy_files: Files, cache: Path) -> None:
    hub.add(REPO, toy_files)
    hub.faults.append(Fault("/cdn/.*/one", 200, {}, b"<html>blocked</html>", sized=False))
    with pytest.raises(CheckpointError, match=r"one\.safetensors of Qwen/Tiny is listed with"):
        opened()
    assert [path.stat().st_size for path in cache.rglob("*.incomplete")].count(0) >= 1
    hub.forget()
    hub.faults.clear()
    assert len(fetched().tensors) == 3
    assert hub.sent["one.safetensors"] == len(toy_files["one.safetensors"])


@pytest.mark.parametrize("page", ["{}", "[]", "less"])
def test_a_listing_that_is_no_model_is_not_kept(hub: LoopbackHub, toy_files: Files, page: str) -> None:
    repo = hub.add(REPO, toy_files)
    less = [item for item in repo.tree() if not item["path"].endswith(".safetensors")]
    body = json.dumps(less) if page == "less" else page
    hub.faults.append(Fault("/tree/", 200, {}, body.encode(), times=1))
    with pytest.raises(CheckpointError):
        opened()
    assert len(opened().tensors) == 3


def test_a_listing_that_left_files_out_is_found_out_before_the_download(hub: LoopbackHub, toy_files: Files) -> None:
    repo = hub.add(REPO, toy_files)
    less = [item for item in repo.tree() if item["path"] != "vocab.txt"]
    hub.faults.append(Fault("/tree/", 200, {}, json.dumps(less).encode(), times=1))
    assert opened().side_files == ()
    hub.forget()
    with pytest.raises(CheckpointError, match=r"was listed otherwise before .*; run the same command again"):
        fetched()
    assert hub.sent == {}
    assert fetched().side_files == (SideFile("vocab.txt", 4),)


def test_the_hub_is_not_needed_for_what_it_has_listed(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    there = fetched()
    checkpoint = opened()
    hub.faults.append(Fault("/tree/", 503))
    assert checkpoint.fetched(Silent()) == there
