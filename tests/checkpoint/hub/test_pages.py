"""A listing that comes in pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]


def next_page(url: str) -> Mapping[str, str]:
    """What leads to the next page."""
    return {"Link": f'<{url}>; rel="next"'}


def test_all_pages_are_read(hub: LoopbackHub, toy_files: Files) -> None:
    repo = hub.add(REPO, toy_files)
    first = json.dumps([{"type": "file", "path": "first.txt", "size": 0, "oid": "0" * 40}]).encode()
    hub.faults.append(Fault("/tree/", 200, next_page(f"{hub.url}/x?cursor=2"), first, times=1))
    assert "first.txt" in [file.name for file in open_checkpoint(REPO).side_files]
    assert [path for _, path, _ in hub.requests[:3]][1:] == [f"/api/models/{REPO}/tree/{repo.commit}"] * 2


def test_the_next_page_is_asked_of_the_same_hub(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the answer leads: the request tells the token."""
    monkeypatch.setenv("HF_TOKEN", hub.token)
    hub.add(REPO, toy_files)
    with LoopbackHub().running() as other:
        page = json.dumps([{"type": "directory", "path": "x"}]).encode()
        hub.faults.append(Fault("/tree/", 200, next_page(f"{other.url}/api/x?cursor=2"), page, times=1))
        assert len(open_checkpoint(REPO).tensors) == 3
        assert other.requests == []


@pytest.mark.parametrize("page", [[], [{"type": "directory", "path": "x"}]])
def test_pages_end(hub: LoopbackHub, toy_files: Files, page: object, sentence: Callable[..., str]) -> None:
    hub.add(REPO, toy_files)
    hub.faults.append(Fault("/tree/", 200, next_page(f"{hub.url}/x?cursor=2"), json.dumps(page).encode()))
    assert f"what {hub.url} answers about {REPO} is not what a Hub answers" in sentence()
    assert len(hub.requests) < 10
