"""This process's client against a Hub on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

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
