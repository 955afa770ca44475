"""Prompts are bytes of the text, from where they are said to be."""

from __future__ import annotations

from pathlib import Path

from bench.quality.generation import byte_prompts


def test_prompts_start_a_step_apart(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(bytes(range(100)))
    assert byte_prompts(path, count=3, length=4, step=20) == [[0, 1, 2, 3], [20, 21, 22, 23], [40, 41, 42, 43]]
