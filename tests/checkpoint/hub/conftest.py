"""This process's client against a Hub on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from schemegen.checkpoint import open_checkpoint
from schemegen.errors import CheckpointError
from schemegen.progress import Silent

REPO = "Qwen/Tiny"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Where the client keeps files."""
    return tmp_path / "hf"


@pytest.fixture
def toy_files(toy: Path) -> Mapping[str, bytes]:
    """The toy checkpoint's files and a side file, by name."""
    files = {path.name: path.read_bytes() for path in toy.iterdir()}
    return {**files, "vocab.txt": b"a\nb\n"}


@pytest.fixture
def sentence() -> Callable[..., str]:
    """What a person is told instead of getting the model."""

    def told(model: str = REPO, revision: str | None = None) -> str:
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(model, revision).fetched(Silent())
        text = "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert "\n" not in text
        assert text[0].islower() or text.startswith(("HF_", model.split("/")[0]))
        return text

    return told
