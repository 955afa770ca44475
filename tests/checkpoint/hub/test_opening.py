"""A model on the Hub: what is asked for, what is fetched, and what is used from the cache."""

from __future__ import annotations

import json
import os
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


class Told(Silent):
    """What a person is shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int, int]] = []
        self.bytes = 0

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Note it."""
        self.begun.append((label, total, done))

    def advance(self, nbytes: int) -> None:
        """Count."""
        self.bytes += nbytes


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


def test_every_needed_byte_is_fetched_once(hub: LoopbackHub, sample_folder: Path) -> None:
    repo = hub.add(REPO, {**hub.add("a/b", sample_folder).files, **LEFT_ALONE})
    checkpoint, told = opened(), Told()
    assert checkpoint.remote is not None
    missing = checkpoint.remote.missing_bytes
    there = checkpoint.fetched(told)
    needed = {name: len(data) for name, data in repo.files.items() if name not in LEFT_ALONE}
    extra = {name: min(len(data), GUESS_BYTES) for name, data in LEFT_ALONE.items() if name.endswith(".safetensors")}
    assert hub.sent == needed | extra
    [(label, total, done)] = told.begun
    assert (label, total - done, told.bytes) == ("download", missing, missing)
    assert {name: there.path(name).exists() for name in repo.files} == {n: n not in LEFT_ALONE for n in repo.files}
    assert all(there.path(name).read_bytes() == repo.files[name][:] for name in needed)


LEFT_ALONE = {
    "pytorch_model.bin": b"b" * 1000,
    "pytorch_model.bin.index.json": b"{}",
    "model-Q4.gguf": b"g" * 1000,
    "onnx/model.onnx": b"o" * 1000,
    "consolidated.safetensors": b"s" * 200_000,
    ".cache/x": b"x",
    "y.lock": b"y",
}


def test_a_fetched_one_lies_in_the_clients_cache_and_is_used_in_place(
    hub: LoopbackHub, toy_files: Files, cache: Path
) -> None:
    repo = hub.add(REPO, toy_files)
    there = fetched()
    assert there.root == (cache / "models--Qwen--Tiny" / "snapshots" / repo.commit).resolve()
    assert there.remote is None
    assert there == open_local(there.root)
    assert all(shard.mtime_ns for shard in there.shards)
    hub.forget()
    assert fetched() == there
    assert [path for _, path, _ in hub.requests] == [f"/api/models/{REPO}/revision/main"]


def test_the_client_finds_what_was_fetched_and_is_found(hub: LoopbackHub, toy_files: Files, cache: Path) -> None:
    from huggingface_hub import snapshot_download

    commit = hub.add(REPO, toy_files).commit
    root = fetched().root
    hub.forget()
    folder = snapshot_download(REPO, revision=commit, cache_dir=cache)
    assert Path(folder).resolve() == root
    assert hub.sent == {}
    for path in cache.rglob("blobs/*"):
        path.unlink()
    for path in root.iterdir():
        path.unlink()
    snapshot_download(REPO, revision=commit, cache_dir=cache)
    hub.forget()
    assert fetched().root == root
    assert hub.sent == {}


def test_blobs_that_a_cache_shares_are_followed(hub: LoopbackHub, toy_files: Files, cache: Path) -> None:
    """What the client leaves of files in Xet storage: a snapshot's link to a blob that is a link to the shared one."""
    hub.add(REPO, toy_files)
    there = fetched()
    blob, shared = (there.root / "one.safetensors").resolve(), cache / "blobs" / "ab" / "abcd"
    shared.parent.mkdir(parents=True)
    blob.rename(shared)
    blob.symlink_to(os.path.relpath(shared, blob.parent))
    with pytest.raises(CheckpointError, match=r"link 'one\.safetensors' leads out of the checkpoint"):
        open_local(there.root)
    (cache / "blobs" / ".huggingface-shared-blobs").write_text("1\n")
    assert open_local(there.root).tensors == there.tensors
    assert fetched().tensors == there.tensors


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


def test_what_lies_in_the_snapshot_besides_does_not_travel(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    root = fetched().root
    (root / "notes.txt").write_text("mine")
    (root / "broken").symlink_to("nowhere")
    assert fetched().side_files == (SideFile("vocab.txt", 4),)


def test_a_link_out_of_the_cache_is_not_followed(hub: LoopbackHub, toy_files: Files, tmp_path: Path) -> None:
    hub.add(REPO, {**toy_files, "sub/a.txt": b"abc"})
    sub = fetched().root / "sub"
    sub.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "a.txt").unlink()
    (tmp_path / "elsewhere" / "a.txt").write_bytes(b"xyz")
    sub.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"link 'sub/a\.txt' leads out of the checkpoint"):
        fetched()


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


def test_other_contents_in_the_cache_than_listed_are_refused(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    blob = (fetched().root / "one.safetensors").resolve()
    checkpoint = opened()
    blob.write_bytes(blob.read_bytes().replace(b'"a.weight"', b'"A.weight"'))
    with pytest.raises(CheckpointError, match=r"what the cache has of|does not hold it|does not name it"):
        checkpoint.fetched(Silent())


def test_a_cached_file_of_another_size_is_fetched_again(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    there = fetched()
    (there.root / "one.safetensors").resolve().write_bytes(b"short")
    hub.forget()
    assert fetched().tensors == there.tensors
    assert hub.sent == {"one.safetensors": len(toy_files["one.safetensors"])}


def offline(monkeypatch: pytest.MonkeyPatch, by: str, hub: LoopbackHub) -> str:
    """Have no Hub, by wish or because nobody answers; the reason that is told."""
    from huggingface_hub import constants

    if by == "wish":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        return "HF_HUB_OFFLINE is set"
    if by == "nobody":
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        return r"http://127\.0\.0\.1:9 cannot be reached: .*"
    hub.faults.append(Fault("/api/", 503))
    return rf"{hub.url} answers with error 503"


@pytest.mark.parametrize("by", ["wish", "nobody", "broken"])
@pytest.mark.parametrize("listed", [True, False])
def test_without_the_hub_a_whole_snapshot_serves_and_says_so(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str, listed: bool
) -> None:
    commit = hub.add(REPO, toy_files).commit
    there = fetched()
    if not listed:
        monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "empty"))
    offline(monkeypatch, by, hub)
    again = opened().fetched(Silent())
    assert replace(again, notes=()) == there
    [note] = again.notes
    assert f"{REPO} is taken from the cache, as main was when last seen ({commit[:12]})" in note
    assert opened(commit).fetched(Silent()).tensors == there.tensors


@pytest.mark.parametrize("by", ["wish", "nobody", "broken"])
@pytest.mark.parametrize("listed", [True, False])
def test_without_the_hub_what_is_missing_is_named(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str, listed: bool
) -> None:
    hub.add(REPO, toy_files)
    root = fetched().root
    for path in (root / "two.safetensors").resolve(), root / "two.safetensors":
        path.unlink()
    if not listed:
        monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "empty"))
    why = offline(monkeypatch, by, hub)
    with pytest.raises(CheckpointError, match=rf"{REPO} is only partly in the cache and {why}: .*two\.safetensors"):
        opened().fetched(Silent())


def test_without_the_hub_a_plan_needs_headers_only(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, toy_files)
    first = opened()
    offline(monkeypatch, "wish", hub)
    again = opened()
    assert again.tensors == first.tensors
    with pytest.raises(CheckpointError, match=r"only partly in the cache and HF_HUB_OFFLINE is set: .*vocab\.txt"):
        again.fetched(Silent())


def test_without_the_hub_and_without_a_cache_there_is_nothing(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline(monkeypatch, "wish", hub)
    for revision in (None, "1" * 40):
        with pytest.raises(CheckpointError, match=r"Qwen/Tiny is not in the cache and HF_HUB_OFFLINE is set"):
            opened(revision)
    assert hub.requests == []
