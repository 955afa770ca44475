"""Layers as text: spans from both ends, and numbers back into spans."""

from __future__ import annotations

import pytest

from schemegen.layers import layer_spans, spans_of


@pytest.mark.parametrize(
    ("layers", "depth", "spans"),
    [("3", 8, [(3, 3)]), ("0-2,-1", 8, [(0, 2), (7, 7)]), ("-3--1", 8, [(5, 7)]), ("1-1", 8, [(1, 1)])],
)
def test_layer_spans(layers: str, depth: int, spans: list[tuple[int, int]]) -> None:
    assert layer_spans(layers, depth) == spans


def test_numbers_as_layers_name_them() -> None:
    assert spans_of([]) == ""
    assert spans_of([7]) == "7"
    assert spans_of([3, 1, 2, 2, 9]) == "1-3,9"
    assert spans_of([0, 1]) == "0-1"
    assert spans_of([3, 7, 11], [3, 7, 11, 15]) == "3-11"
