"""A model on the Hub, fetched: what comes, where it lies, and what is used from the cache."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import headers, open_checkpoint
from schemegen.checkpoint.hub import opening
from schemegen.checkpoint.hub.opening import HubRemote
from schemegen.checkpoint.hub.transfer import GUESS_BYTES
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint, SideFile
from schemegen.errors import CheckpointError
from schemegen.progress import Silent

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]


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
    asked = [f"/api/models/{REPO}/revision/main", f"/api/models/{REPO}/tree/{repo.commit}"]
    assert [path for _, path, _ in hub.requests] == asked


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
    ("name", "old", "new"),
    [
        ("one.safetensors", b'"a.weight"', b'"A.weight"'),
        ("one.safetensors", b"\0\0\0\0{", b"\0\0\0\1{"),
        ("two.safetensors", b'"c.weight"', b'"c.weigh\xff"'),
        ("config.json", b"{", b"["),
    ],
)
@pytest.mark.parametrize("small", [0, 1 << 20])
def test_other_contents_in_the_cache_than_listed_are_refused(
    hub: LoopbackHub,
    toy_files: Files,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    old: bytes,
    new: bytes,
    small: int,
) -> None:
    monkeypatch.setattr(opening, "_SMALL_BYTES", small)
    hub.add(REPO, toy_files)
    root = fetched().root
    checkpoint = opened()
    blob = (root / name).resolve()
    changed = blob.read_bytes().replace(old, new, 1)
    assert changed != blob.read_bytes()
    blob.write_bytes(changed)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.fetched(Silent())
    assert str(caught.value) == (
        f"{name} of {REPO} in the cache is not what the Hub lists; remove {blob} and run the same command again"
    )
    blob.unlink()
    assert opened().fetched(Silent()).tensors == checkpoint.tensors


def test_a_small_file_of_the_cache_is_compared_whole(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    blob = (fetched().root / "vocab.txt").resolve()
    blob.write_bytes(b"x\ny\n")
    with pytest.raises(CheckpointError) as caught:
        fetched()
    assert str(caught.value).startswith(f"vocab.txt of {REPO} in the cache is not what the Hub lists; remove {blob}")


def test_headers_that_came_wrong_do_not_cost_the_right_files(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    name = "two.safetensors"
    right = toy_files[name]
    wrong = right.replace(b'"pt"', b'"np"', 1)
    assert wrong != right
    told = {"Content-Range": f"bytes 0-{len(right) - 1}/{len(right)}"}
    hub.faults.append(Fault("/cdn/.*/two", 206, told, wrong, times=1))
    checkpoint = opened()
    with pytest.raises(CheckpointError) as caught:
        checkpoint.fetched(Silent())
    assert str(caught.value) == (
        f"the headers that first came of {REPO} were not those of the files that the Hub lists; these are in the cache "
        "now: run the same command again"
    )
    hub.forget()
    assert fetched().tensors == checkpoint.tensors
    assert hub.sent == {}


def test_what_was_understood_from_headers_is_not_read_again(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, toy_files)
    checkpoint = opened()
    parsed: list[str] = []
    parse = headers.parse_header

    def noted(raw: bytes, shard: str, *facts: int) -> headers.Header:
        parsed.append(shard)
        return parse(raw, shard, *facts)

    monkeypatch.setattr(headers, "parse_header", noted)
    there = checkpoint.fetched(Silent())
    assert parsed == []
    assert there == open_local(there.root)
    assert sorted(parsed) == ["one.safetensors", "two.safetensors"]


def test_a_cached_file_of_another_size_is_fetched_again(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    there = fetched()
    (there.root / "one.safetensors").resolve().write_bytes(b"short")
    hub.forget()
    assert fetched().tensors == there.tensors
    assert hub.sent == {"one.safetensors": len(toy_files["one.safetensors"])}


def test_whoever_waits_for_another_process_is_told(hub: LoopbackHub, toy_files: Files) -> None:
    hub.add(REPO, toy_files)
    checkpoint, told = opened(), Told()
    assert isinstance(checkpoint.remote, HubRemote)
    store = checkpoint.remote.found.store
    entry = next(entry for entry in checkpoint.remote.entries if entry.name == "vocab.txt")
    waiting = threading.Thread(target=checkpoint.fetched, args=[told])
    with store.locked(entry, wait=True):
        waiting.start()
        until = time.monotonic() + 20
        while not told.begun and time.monotonic() < until:
            time.sleep(0.01)
    waiting.join(30)
    [(label, total, done)] = told.begun
    assert label == "download, waiting for another process that has begun it"
    assert told.bytes == total - done


@pytest.mark.parametrize("linked", ["blobs", "models--Qwen--Tiny"])
def test_a_cache_may_lie_on_another_disk(
    hub: LoopbackHub, toy_files: Files, cache: Path, tmp_path: Path, linked: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = cache / "models--Qwen--Tiny" / "blobs" if linked == "blobs" else cache / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    hub.add(REPO, {**toy_files, "sub/a.txt": b"abc"})
    there = fetched()
    assert there == fetched()
    again = open_local(cache / "models--Qwen--Tiny" / "snapshots" / str(there.revision))
    assert (again.model_id, again.revision, again.tensors) == (REPO, there.revision, there.tensors)
