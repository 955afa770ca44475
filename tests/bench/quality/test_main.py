"""The command line of `bench.quality`: what it needs is asked for by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.quality.__main__ import TEXT, _chosen


@pytest.mark.parametrize("words", [[], ["--yardstick"], ["--yardstick", "kimi-k2-int4"], ["kimi-k2-int4"]])
def test_without_a_yardstick_it_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        _chosen(words)
    assert left.value.code == 2
    assert "make bench-quality YARDSTICK=DIR" in capsys.readouterr().err


def test_a_yardstick_is_a_folder_with_a_text(tmp_path: Path) -> None:
    (tmp_path / TEXT).touch()
    assert _chosen(["--yardstick", str(tmp_path), "a+b"]).schemes == ["a+b"]
