"""The measure of weights on Kimi's grid, on few groups."""

from __future__ import annotations

import sys

import pytest

from bench.kimi_exact import ALONE, ENDS_ONLY, EXACT, ORDINARY, PLAIN, main, measure


def test_narrow_range_finds_codes_and_scales_again() -> None:
    tallies = measure(20_000)
    found = tallies[EXACT, ORDINARY]
    assert found.groups == found.same_codes == found.same_scale == found.same_both == found.same_weights == 20_000
    assert found.relative_error == 0
    ends = tallies[EXACT, ENDS_ONLY]
    assert ends.groups == ends.same_codes == ends.same_weights == 200
    assert ends.same_scale < 200
    assert 0.8 < tallies[ALONE, ORDINARY].same_scale / 20_000 < 0.95
    assert tallies[PLAIN, ORDINARY].same_both == 0
    assert 0.05 < tallies[PLAIN, ORDINARY].relative_error < 0.08


def test_the_table_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kimi_exact", "--groups", "300"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[1].split()[:2] == [EXACT, "groups"]
    assert "300" in lines[1].split()
