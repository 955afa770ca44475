"""Numbers as people read them."""

from __future__ import annotations

import pytest

from schemegen.cli import figures


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (999_400, "999 kB"),
        (999_600, "1.00 MB"),
        (3_280_000_000, "3.28 GB"),
        (24_441_405_152, "24.4 GB"),
        (71_903_645_408, "71.9 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_size(nbytes: int, text: str) -> None:
    assert figures.size(nbytes) == text


def test_size_of_takes_the_unit_of_the_total() -> None:
    assert figures.size_of(1_200_000_000, 3_300_000_000) == "1.2 of 3.3 GB"
    assert figures.size_of(90_000_000, 3_300_000_000) == "0.1 of 3.3 GB"
    assert figures.size_of(5, 70) == "5 of 70 B"


def test_rate() -> None:
    assert figures.rate(3_220_000_000, 2.0) == "1.61 GB/s"
    assert figures.rate(1, 0.0) == ""


def test_change_says_how_much_smaller_only_when_it_is() -> None:
    assert figures.change(71_903_645_408, 24_441_405_152) == "71.9 GB to 24.4 GB, 2.94 times smaller"
    assert figures.change(10, 20) == "10 B to 20 B"
    assert figures.change(10, 0) == "10 B to 0 B"


@pytest.mark.parametrize(
    ("seconds", "exact", "coarse"),
    [
        (0.0, "0.00 s", "1 s"),
        (1.523, "1.52 s", "2 s"),
        (45.04, "45.0 s", "45 s"),
        (59.97, "1 min 00 s", "1 min 00 s"),
        (125.2, "2 min 05 s", "2 min 05 s"),
        (3599.7, "1 h 00 min", "1 h 00 min"),
        (3725.0, "1 h 02 min", "1 h 02 min"),
    ],
)
def test_spans_of_time(seconds: float, exact: str, coarse: str) -> None:
    assert figures.duration(seconds) == exact
    assert figures.coarse(seconds) == coarse


def test_counts() -> None:
    assert figures.count(95_427) == "95,427"
    assert figures.plural(1, "shard") == "1 shard"
    assert figures.plural(1_026, "shard") == "1,026 shards"


def test_bits() -> None:
    assert figures.bits(4.502) == "4.50"
    assert figures.bits(16) == "16.00"
    assert figures.bits(None) == ""
