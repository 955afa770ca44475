"""Folders: config, names, links, and the layout of a Hub cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from schemegen.checkpoint.headers import read_header
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Shard
from schemegen.errors import CheckpointError


def test_a_folder_is_named_after_itself(toy: Path) -> None:
    checkpoint = open_local(toy)
    assert (checkpoint.model_id, checkpoint.revision, checkpoint.root) == ("toy", None, toy.resolve())
    assert checkpoint.config == {"model_type": "toy"}
    assert checkpoint.config_text == '{\n  "model_type": "toy"\n}\n'
    header = read_header(toy / "one.safetensors", "one.safetensors")
    status = (toy / "one.safetensors").stat()
    assert checkpoint.shards[0] == Shard("one.safetensors", status.st_size, status.st_mtime_ns, header.digest)
    assert checkpoint.tensors[:2] == header.tensors
    assert checkpoint.path("one.safetensors") == toy.resolve() / "one.safetensors"


def test_a_tensor_lies_where_its_header_says(toy: Path) -> None:
    tensor = open_local(toy).tensors[1]
    content = (toy / tensor.shard).read_bytes()
    assert content[tensor.offset : tensor.offset + tensor.nbytes] == b"b" * 6


def test_a_folder_reached_by_a_link_is_named_after_its_end(toy: Path) -> None:
    (toy.parent / "link").symlink_to("toy")
    assert open_local(toy.parent / "link") == open_local(toy)


def test_a_relative_folder_works(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy)
    assert open_local(Path()) == open_local(toy)


@pytest.fixture
def snapshot(toy: Path, tmp_path: Path) -> Path:
    """The toy as a Hub cache keeps it: files are links into ../../blobs, one of them in a subfolder."""
    cache = tmp_path / "hub/models--some-org--Toy-1.5B"
    folder = cache / "snapshots/0123abc"
    for number, path in enumerate(sorted(toy.iterdir())):
        (cache / "blobs").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, cache / f"blobs/{number}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).symlink_to(f"../../blobs/{number}")
    (folder / "sub").mkdir()
    (folder / "sub/note.txt").symlink_to("../../../blobs/0")
    return folder


def test_a_hub_cache_tells_id_and_revision(snapshot: Path, toy: Path) -> None:
    checkpoint = open_local(snapshot)
    assert (checkpoint.model_id, checkpoint.revision) == ("some-org/Toy-1.5B", "0123abc")
    assert checkpoint.tensors == open_local(toy).tensors
    assert [file.name for file in checkpoint.side_files] == ["sub/note.txt"]


def test_a_hub_cache_reached_by_a_link_works(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(snapshot)
    assert open_local(tmp_path / "link").model_id == "some-org/Toy-1.5B"


def test_a_hub_id_without_an_organization_is_kept(snapshot: Path) -> None:
    cache = snapshot.parent.parent
    renamed = cache.rename(cache.with_name("models--gpt2"))
    assert open_local(renamed / "snapshots/0123abc").model_id == "gpt2"


@pytest.mark.parametrize("name", ["one.safetensors", "sub/note.txt", "config.json"])
@pytest.mark.parametrize("target", ["refs/x", "snapshots/other/x", "../models--a--b/blobs/x", "../../secret"])
def test_a_link_of_a_hub_cache_to_other_places_is_refused(snapshot: Path, name: str, target: str) -> None:
    outside = Path(os.path.normpath(snapshot.parent.parent / target))
    outside.parent.mkdir(parents=True, exist_ok=True)
    outside.write_bytes(b"{}")
    (snapshot / name).unlink()
    (snapshot / name).symlink_to(outside)
    with pytest.raises(CheckpointError, match=f"link '{name}' leads out of the checkpoint"):
        open_local(snapshot)


def test_a_folder_that_is_no_snapshot_has_no_blobs(toy: Path) -> None:
    blobs = toy.parent.parent / "blobs"
    blobs.mkdir()
    (toy / "two.safetensors").rename(blobs / "two")
    (toy / "two.safetensors").symlink_to(blobs / "two")
    with pytest.raises(CheckpointError, match=r"link 'two\.safetensors' leads out"):
        open_local(toy)


def test_a_half_finished_download_is_told(snapshot: Path) -> None:
    (snapshot / "two.safetensors").resolve().unlink()
    with pytest.raises(CheckpointError, match=r"link 'two\.safetensors' leads nowhere; download the file again"):
        open_local(snapshot)


def test_the_folder_of_a_hub_cache_is_not_the_model(snapshot: Path) -> None:
    with pytest.raises(CheckpointError, match="it is a Hub cache: give one of the folders in its snapshots"):
        open_local(snapshot.parent.parent)


def test_a_folder_without_a_config_is_not_walked(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("/nowhere")
    with pytest.raises(CheckpointError, match=r"has no config\.json; download the model again"):
        open_local(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"config\.json cannot be read as JSON"),
        (b"[]", r"config\.json holds no JSON object"),
        (b"\xef\xbb\xbf{}", r"config\.json begins with a byte order mark"),
        (b'{"a": "\xe9"}', r"config\.json is not UTF-8"),
        (b'{"a": 1, "a": 2}', r"config\.json .*key 'a' stands twice"),
    ],
)
def test_a_config_that_is_damaged_is_told(toy: Path, content: bytes, message: str) -> None:
    (toy / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        open_local(toy)


def test_the_text_of_the_config_is_kept_to_the_byte(toy: Path) -> None:
    text = '{ "b":1,\r\n\t"a": 1e-06, "c": "\u00e9\\u00e9", "d": [Infinity]}'
    (toy / "config.json").write_bytes(text.encode())
    assert open_local(toy).config_text == text


def test_a_config_that_is_a_folder_is_told(toy: Path) -> None:
    (toy / "config.json").unlink()
    (toy / "config.json").mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json is not a regular file"):
        open_local(toy)


def test_a_shard_that_is_a_pipe_is_not_waited_for(toy: Path) -> None:
    (toy / "one.safetensors").unlink()
    os.mkfifo(toy / "one.safetensors")
    with pytest.raises(CheckpointError, match=r"file 'one\.safetensors' is a pipe"):
        open_local(toy)


def test_a_truncated_shard_is_named(toy: Path) -> None:
    os.truncate(toy / "one.safetensors", (toy / "one.safetensors").stat().st_size - 7)
    with pytest.raises(CheckpointError, match=r"shard 'one\.safetensors' is cut short: 7 of"):
        open_local(toy)


def test_a_shard_that_cannot_be_read_is_named(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.open

    def deny(path: str | Path, *arguments: int) -> int:
        if Path(path).name == "two.safetensors":
            raise PermissionError(13, "Permission denied")
        return original(path, *arguments)

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(CheckpointError, match=r"shard 'two\.safetensors' cannot be read \(permission denied\)"):
        open_local(toy)


def test_a_missing_folder_and_a_file_are_told(toy: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no folder"):
        open_local(toy / "none")
    with pytest.raises(CheckpointError, match=r"one\.safetensors' is a file; give the folder that holds it"):
        open_local(toy / "one.safetensors")


def test_a_loop_of_links_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(CheckpointError, match="there is no folder"):
        open_local(tmp_path / "a")


def test_a_sparse_giant_opens_at_once(tmp_path: Path, write_checkpoint: Callable[..., Path]) -> None:
    folder = write_checkpoint(tmp_path / "x", {"a": ("U8", (0,), b"")}, {})
    header = b'{"a":{"dtype":"U8","shape":[72000000000],"data_offsets":[0,72000000000]}}'
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 72_000_000_000)
    assert open_local(folder).nbytes == 72_000_000_000


@pytest.mark.parametrize("cached", [False, True])
def test_a_folder_whose_name_is_not_unicode_is_refused(toy: Path, cached: bool) -> None:
    name = os.fsdecode(b"caf\xe9")
    folder = toy.parent / f"models--a--{name}/snapshots/1" if cached else toy.parent / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        toy.rename(folder)
    except OSError:
        pytest.skip("the file system takes only Unicode")
    with pytest.raises(CheckpointError, match=r"folder name b'.*caf\\xe9' is not UTF-8; rename the folder"):
        open_local(folder)


def test_a_parent_folder_may_have_any_name(toy: Path) -> None:
    folder = toy.parent / os.fsdecode(b"caf\xe9") / "toy"
    try:
        folder.parent.mkdir()
    except OSError:
        pytest.skip("the file system takes only Unicode")
    assert open_local(toy.rename(folder)).model_id == "toy"
