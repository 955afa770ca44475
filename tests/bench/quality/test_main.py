"""The command line of `bench.quality`: what it needs is asked for by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.quality.__main__ import TEXT, Measured, _chosen, _rows
from bench.quality.divergence import Divergence


@pytest.mark.parametrize("words", [[], ["--yardstick"], ["--yardstick", "kimi-k2-int4"], ["kimi-k2-int4"]])
def test_without_a_yardstick_it_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        _chosen(words)
    assert left.value.code == 2
    assert "make bench-quality YARDSTICK=DIR" in capsys.readouterr().err


def test_a_yardstick_is_a_folder_with_a_text(tmp_path: Path) -> None:
    (tmp_path / TEXT).touch()
    assert _chosen(["--yardstick", str(tmp_path), "a+b"]).schemes == ["a+b"]


def test_without_schemes_all_built_in_ones_are_measured(tmp_path: Path) -> None:
    (tmp_path / TEXT).touch()
    found = _chosen(["--yardstick", str(tmp_path)])
    assert {"kimi-k2-int4", "kimi-k2-int4-exact"} <= set(found.schemes)
    assert found.drafts == "kimi"


def test_a_row_tells_noise_by_role_and_what_is_not_measured() -> None:
    divergence = Divergence(1.25, 0.0005, 0.98, 21.0)
    sqnr = {"routed_expert": 20.5, "attention": 31.25, "shared_expert": 30.75}
    row, stored = _rows(Measured("a", divergence, divergence, sqnr, activations=True), None)
    assert row.split() == ["a", "*", "1.25000", "0.000500", "0.9800", "20.50", "30.75", "-"]
    assert stored.split() == ["decoded", "to", "F32", "1.25000", "0.000500", "0.9800", "-", "-", "-"]


def test_a_scheme_that_does_not_apply_says_why() -> None:
    (row,) = _rows(Measured("a", None, refused="it does not fit"), None)
    assert row.split("  ")[-1] == "it does not fit"
    assert "not applied" in row
