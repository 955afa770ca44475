"""One sentence for a disk that takes nothing more: it names the place and the way out."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.loopback_hub import LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.progress import Silent

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]
Sentence = Callable[..., str]


def without_space(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk take `after` more bytes of downloads."""
    from schemegen.checkpoint.hub.store import Partial

    append, left = Partial.append, [after]

    def limited(self: Partial, data: bytes) -> None:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, data)

    monkeypatch.setattr(Partial, "append", limited)


def test_a_disk_that_is_full(
    hub: LoopbackHub, sample_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, sentence: Sentence
) -> None:
    hub.add(REPO, sample_folder)
    checkpoint = open_checkpoint(REPO)
    with monkeypatch.context() as patch:
        without_space(patch, 2_000_000)
        text = sentence()
    assert re.fullmatch(
        r"cannot keep \S+ of Qwen/Tiny in the Hub's cache \(\S+/hf: no space left on device\); what has come "
        r"is kept: make room, or set HF_HUB_CACHE to another disk, and run the same command again",
        text,
    )
    hub.forget()
    checkpoint.fetched(Silent())
    kept = sum(len(data) for data in hub.repos[REPO].files.values()) - sum(hub.sent.values())
    assert kept > 1_000_000


def test_a_cache_that_cannot_be_written(hub: LoopbackHub, toy_files: Files, cache: Path, sentence: Sentence) -> None:
    hub.add(REPO, toy_files)
    cache.write_text("a file where the cache should be")
    text = sentence()
    assert re.match(r"cannot keep \S+ of Qwen/Tiny in the Hub's cache \(\S+: .*\); set HF_HUB_CACHE to a folder", text)
    assert text.endswith("set HF_HUB_CACHE to a folder that you may write to")
