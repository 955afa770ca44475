"""Nats, KL divergence, agreement and noise of predictions small enough to work out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bench.quality.divergence import Prediction, compare, windows


def prediction(rows: list[list[float]], expert: list[float]) -> Prediction:
    """One window of probabilities, and one expert's weights."""
    torch: Any = pytest.importorskip("torch")
    return Prediction(torch.tensor([rows]).log(), {"layers.0.experts.down_proj": torch.tensor(expert)})


def test_figures_are_per_place() -> None:
    source = prediction([[0.5, 0.5], [0.75, 0.25]], [3.0, 4.0])
    other = prediction([[0.25, 0.75], [0.5, 0.5]], [3.0, 4.5])
    torch: Any = pytest.importorskip("torch")
    found = compare(source, other, torch.tensor([[0, 1]]))
    # The first place alone has a next token to be judged by.
    assert found.nats == pytest.approx(-math.log(0.75))
    first = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    second = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert found.kl == pytest.approx((first + second) / 2)
    assert found.sqnr == pytest.approx(10 * math.log10(25 / 0.25))


def test_a_checkpoint_does_not_diverge_from_itself() -> None:
    source = prediction([[0.25, 0.75], [0.5, 0.5]], [1.0, 2.0])
    torch: Any = pytest.importorskip("torch")
    found = compare(source, source, torch.tensor([[0, 1]]))
    assert (found.kl, found.same_top, found.sqnr) == (0, 1, math.inf)


def test_the_most_probable_token_is_compared() -> None:
    torch: Any = pytest.importorskip("torch")
    source, other = prediction([[0.25, 0.75], [0.9, 0.1]], [1.0]), prediction([[0.75, 0.25], [0.8, 0.2]], [1.0])
    assert compare(source, other, torch.tensor([[0, 1]])).same_top == 0.5


def test_too_short_a_text_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "valid.bin").write_bytes(bytes(300))
    assert windows(tmp_path / "valid.bin", 1).shape == (1, 256)
    with pytest.raises(SystemExit, match="fewer than 2 windows"):
        windows(tmp_path / "valid.bin", 2)
