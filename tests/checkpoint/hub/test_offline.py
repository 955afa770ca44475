"""A model on the Hub while the Hub cannot be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.model import Checkpoint
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
    note, *more = again.notes
    assert f"{REPO} is taken from the cache, as main was when last seen ({commit[:12]})" in note
    # What one Hub has listed says nothing of another.
    unknown = f"whether the other files of {REPO} are complete is unknown (1 besides config and index are there)"
    assert [unknown in text for text in more] == ([] if listed and by != "nobody" else [True])
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


def test_without_the_hub_an_id_in_another_case_is_told_the_right_one(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, toy_files)
    fetched()
    offline(monkeypatch, "wish", hub)
    with pytest.raises(CheckpointError, match=rf"did you mean {REPO}"):
        open_checkpoint(REPO.lower())
    with pytest.raises(CheckpointError, match=rf"did you mean {REPO}"):
        open_checkpoint(REPO.lower(), "1" * 40)
