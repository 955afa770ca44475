"""The source of an output is found by whatever name leads to it, at the revision that the output was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

import schemegen
from bench.loopback_hub import LoopbackHub
from schemegen.errors import CheckpointError, UnsupportedError
from schemegen.manifest import Manifest, read_manifest
from schemegen.verifier.against import source_of

REPO = "Qwen/Tiny"
OLD = "old/name"
MOVED = "1" * 40


@pytest.fixture
def commit(hub: LoopbackHub, sample_folder: Path) -> str:
    """The model on the Hub, under its own name, an old one and in small letters; what its main is."""
    commit = hub.add(REPO, sample_folder).commit
    hub.repos |= {OLD: hub.repos[REPO], REPO.lower(): hub.repos[REPO]}
    hub.add("another/Tiny", sample_folder)
    return commit


def made(hub: LoopbackHub, folder: Path, model: str, revision: str | None = None) -> Manifest:
    """The manifest of an output, made before the model's main moved on."""
    manifest = read_manifest(schemegen.apply("kimi-k2-int4", model, folder, revision=revision).path)
    repo = hub.repos[REPO]
    repo.refs.update(main=MOVED, before=repo.commit)
    hub.forget()
    return manifest


@pytest.mark.parametrize("given", [REPO, REPO.lower(), OLD, f"https://huggingface.co/{REPO.upper()}", f"hf.co/{OLD}"])
@pytest.mark.parametrize("by", [REPO, REPO.lower(), OLD])
def test_any_name_of_the_model_means_the_revision_of_the_output(
    hub: LoopbackHub, commit: str, tmp_path: Path, by: str, given: str
) -> None:
    manifest = made(hub, tmp_path / "out", by)
    assert (manifest.model_id, manifest.revision) == (REPO, commit)
    schemegen.verify(tmp_path / "out", given)
    source = source_of(manifest, given, None)
    assert source is not None
    assert (source.model_id, source.revision) == (REPO, commit)
    assert hub.sent == {}


def test_an_output_that_knows_the_model_by_its_old_name(hub: LoopbackHub, commit: str, tmp_path: Path) -> None:
    manifest = made(hub, tmp_path / "out", OLD, commit)
    assert manifest.model_id == OLD
    schemegen.verify(tmp_path / "out", REPO)
    assert hub.sent == {}


def test_another_repository_or_a_revision_that_is_named_is_what_it_says(
    hub: LoopbackHub, commit: str, tmp_path: Path
) -> None:
    manifest = made(hub, tmp_path / "out", REPO)
    for against, revision, expected in (
        (REPO, "main", MOVED),
        (f"https://huggingface.co/{OLD}/tree/main", None, MOVED),
        ("another/Tiny", None, hub.repos["another/Tiny"].commit),
    ):
        source = source_of(manifest, against, revision)
        assert source is not None
        assert source.revision == expected
    with pytest.raises(CheckpointError, match="no/such"):
        source_of(manifest, "no/such", None)


def test_an_output_of_a_folder_asks_the_hub_only_for_what_it_is_told(
    hub: LoopbackHub, commit: str, finished: Path, sample_folder: Path
) -> None:
    manifest = read_manifest(finished)
    there = source_of(manifest, str(sample_folder), None)
    assert there is not None
    assert (there.revision, hub.requests) == (None, [])
    found = source_of(manifest, OLD, None)
    assert found is not None
    assert found.revision == commit


def test_a_revision_of_nothing_is_refused(finished: Path) -> None:
    assert source_of(read_manifest(finished), None, None) is None
    with pytest.raises(UnsupportedError, match="'main' is that of the model to compare with"):
        source_of(read_manifest(finished), None, "main")
