"""What a MODEL argument means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.loopback_hub import LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.errors import CheckpointError, UnknownNameError


def test_a_folder_is_opened(toy: Path) -> None:
    assert open_checkpoint(str(toy)).model_id == "toy"


def test_a_sample_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    assert open_checkpoint("sample:qwen3.6-moe").model_id == "sample:qwen3.6-moe"


def test_an_unknown_sample_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown sample 'qwen3\.6': did you mean qwen3\.6-moe\?"):
        open_checkpoint("sample:qwen3.6")


def test_a_file_is_answered_with_its_folder(toy: Path) -> None:
    with pytest.raises(CheckpointError, match=r"one\.safetensors' is a file; give the folder that holds it"):
        open_checkpoint(str(toy / "one.safetensors"))


@pytest.mark.parametrize("address", ["Qwen/Tiny", "Qwen/Tiny/", "{url}/Qwen/Tiny", "{url}/Qwen/Tiny/tree/main"])
def test_a_hub_id_is_opened(hub: LoopbackHub, toy: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.parent)
    (toy.parent / "Qwen").mkdir()
    hub.add("Qwen/Tiny", toy)
    assert open_checkpoint(address.format(url=hub.url)).model_id == "Qwen/Tiny"


def test_a_path_that_is_no_model_on_the_hub_either(
    hub: LoopbackHub, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(toy.parent.parent)
    with pytest.raises(CheckpointError, match="there is no model") as caught:
        open_checkpoint(f"{toy.parent.name}/toyy")
    [note] = caught.value.__notes__
    assert note == f"there is no folder '{toy.parent.name}/toyy' either: did you mean {toy.parent.name}/toy?"


def test_a_revision_is_of_a_hub_id(hub: LoopbackHub, toy: Path) -> None:
    hub.add("Qwen/Tiny", toy, refs={"main": "1" * 40, "v1": "2" * 40})
    assert open_checkpoint("Qwen/Tiny", "v1").revision == "2" * 40
    assert open_checkpoint(f"{hub.url}/Qwen/Tiny/tree/v1", "v1").revision == "2" * 40
    with pytest.raises(CheckpointError, match=r"names revision 'v1' and --revision 'main'; give one of them"):
        open_checkpoint(f"{hub.url}/Qwen/Tiny/tree/v1", "main")


def test_what_lies_on_disk_has_no_other_revision(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "cache"))
    for model in (str(toy), "sample:qwen3.6-moe"):
        with pytest.raises(CheckpointError, match=r"--revision main is for a Hub id, and .* is on disk: it has none"):
            open_checkpoint(model, "main")
    snapshot = tmp_path / "models--o--n" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    toy.rename(snapshot)
    assert open_checkpoint(str(snapshot), "abc").revision == "abc"
    with pytest.raises(CheckpointError, match=r"is on disk: it holds abc; leave --revision out"):
        open_checkpoint(str(snapshot), "main")


def test_a_folder_that_looks_like_a_hub_id_is_a_folder(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.parent.parent)
    assert open_checkpoint(f"{toy.parent.name}/toy").model_id == "toy"


@pytest.mark.parametrize(
    "model", ["", "Qwen3.6", "./a/b", "../x/y", "/no/such", "a\0b", "x" * 5000, "a/b/c", "~/x", "\ud800"]
)
def test_anything_else_is_told_to_be_missing(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"there is no folder .*; give a model's folder, a Hub id or sample:qwen3\.6-moe"
    ):
        open_checkpoint(model)


def test_a_typing_error_gets_a_suggestion(toy: Path) -> None:
    with pytest.raises(CheckpointError, match=r"did you mean \S+/toy\?"):
        open_checkpoint(str(toy.parent / "tyo"))


def test_a_suggestion_is_one_that_can_be_printed(toy: Path) -> None:
    for name in (os.fsdecode(b"toy\xe9"), "toy\x1b", "toy1"):
        try:
            (toy.parent / name).mkdir()
        except OSError:
            pytest.skip("the file system takes only Unicode")
    with pytest.raises(CheckpointError, match=r"did you mean \S+/toy1 or \S+/toy\?$"):
        open_checkpoint(str(toy.parent / "toy11"))


def test_a_path_is_never_a_model_on_the_hub(hub: LoopbackHub, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.parent)
    hub.add("Qwen/Tiny", toy)
    with pytest.raises(CheckpointError, match=r"^there is no folder 'Qwen/Tiny'; give a model's folder"):
        open_checkpoint(Path("Qwen/Tiny"))
    assert open_checkpoint(toy).model_id == "toy"
