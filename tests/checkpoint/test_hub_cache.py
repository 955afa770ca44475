"""Names and places in the Hub client's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemegen.checkpoint.hub_cache import blob_folders, folder_name, is_blob, model_folder, repo_of


@pytest.mark.parametrize("repo", ["Qwen/Qwen3.6-35B-A3B", "gpt2", "a-b/c_d"])
def test_a_model_has_a_folder_of_its_own(repo: str) -> None:
    assert repo_of(folder_name(repo)) == repo


@pytest.mark.parametrize("repo", ["Qwen/Qwen3.6-35B-A3B", "gpt2"])
def test_it_is_the_clients_own(repo: str) -> None:
    from huggingface_hub.file_download import repo_folder_name

    assert folder_name(repo) == repo_folder_name(repo_id=repo, repo_type="model")


@pytest.mark.parametrize("name", ["datasets--a--b", ".locks", "blobs", "a--b"])
def test_other_folders_hold_no_model(name: str) -> None:
    assert repo_of(name) is None


def test_a_snapshot_is_told_from_other_folders(tmp_path: Path) -> None:
    folder = tmp_path / "models--a--b"
    assert model_folder(folder / "snapshots" / "1") == folder
    for other in folder, folder / "snapshots", folder / "blobs" / "1", tmp_path / "a" / "snapshots" / "1":
        assert model_folder(other) is None


def test_links_lead_to_the_models_blobs_or_the_shared_ones(tmp_path: Path) -> None:
    folder = tmp_path / "models--a--b"
    assert blob_folders(None) == []
    assert blob_folders(folder) == [folder / "blobs"]
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / ".huggingface-shared-blobs").touch()
    assert blob_folders(folder) == [folder / "blobs", tmp_path / "blobs"]


def test_a_linked_folder_of_blobs_lends_only_what_is_named_by_a_digest(tmp_path: Path) -> None:
    other, blobs = tmp_path / "other", tmp_path / "models--a--b" / "blobs"
    other.mkdir()
    blobs.parent.mkdir()
    blobs.symlink_to(other)
    assert is_blob(other / ("0" * 64), blobs)
    assert is_blob(other / ("0" * 40), blobs)
    assert not is_blob(other / "id_rsa", blobs)
    assert not is_blob(other / "sub" / ("0" * 64), blobs)
    assert not is_blob(tmp_path / ("0" * 64), blobs)


def test_a_linked_model_folder_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "disk" / "snapshots" / "1").mkdir(parents=True)
    (tmp_path / "models--a--b").symlink_to(tmp_path / "disk")
    folder = model_folder(tmp_path / "models--a--b" / "snapshots" / "1")
    assert folder == tmp_path / "models--a--b"
    assert is_blob((tmp_path / "disk" / "blobs" / ("0" * 64)).resolve(), blob_folders(folder)[0])
