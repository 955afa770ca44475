"""What a MODEL argument means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemegen.checkpoint import open_checkpoint
from schemegen.errors import CheckpointError, UnknownNameError, UnsupportedError


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


@pytest.mark.parametrize(
    "model",
    ["Qwen/Qwen3.6-35B-A3B", "https://huggingface.co/Qwen/Qwen3.6-35B-A3B", "https://hf.co/Qwen/Qwen3.6-35B-A3B/"],
)
def test_a_hub_id_is_answered_with_the_download(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = r"'hf download Qwen/Qwen3\.6-35B-A3B --local-dir Qwen3\.6-35B-A3B' and give the folder"
    with pytest.raises(UnsupportedError, match=command):
        open_checkpoint(model)


def test_a_path_below_an_existing_folder_is_no_hub_id(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.parent.parent)
    with pytest.raises(CheckpointError, match=r"there is no folder '\S+/toyy'; did you mean \S+/toy\?"):
        open_checkpoint(f"{toy.parent.name}/toyy")


def test_a_folder_that_looks_like_a_hub_id_is_a_folder(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.parent.parent)
    assert open_checkpoint(f"{toy.parent.name}/toy").model_id == "toy"


@pytest.mark.parametrize(
    "model", ["", "Qwen3.6", "./a/b", "../x/y", "/no/such", "a\0b", "x" * 5000, "a/b/c", "~/x", "\ud800"]
)
def test_anything_else_is_told_to_be_missing(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"there is no folder .*; give a model's folder or sample:qwen3\.6-moe"):
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
