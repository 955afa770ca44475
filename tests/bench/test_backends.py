"""The comparison of backends: what is missing is said, what differs is named."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from bench import backends
from bench.workspace import Workspace


def test_what_is_not_installed_is_skipped_with_a_word(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    first, torch, plugin = backends._sides(str(bare))
    assert first.missing == ""
    assert torch.missing.startswith("skipped: no torch there")
    assert plugin.missing.startswith("skipped: the plugin is not installed there")


def test_a_line_is_a_whole_command() -> None:
    side = backends.Side("a", ("python", "-m", "schemegen"), ("--device", "cpu"))
    line = "python -m schemegen apply kimi-k2-int4 model -o out --device cpu"
    assert side.line("model", Path("out")) == line.split()


def test_equal_outputs_are_counted_and_others_named(finished: Path, tmp_path: Path) -> None:
    assert backends._verdict(finished, finished).startswith("equal: 474 tensors")
    other = Path(shutil.copytree(finished, tmp_path / "other"))
    assert backends._verdict(finished, other).startswith("equal: 474 tensors")
    shard = min(other.glob("*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    assert backends._verdict(finished, other).startswith("different: ")


def test_an_unknown_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no folder and no recipe 'nonsense'"):
        backends._model(Workspace(tmp_path), "nonsense")
