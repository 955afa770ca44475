"""What is told of schemes is what their files and plans say: sizes, README's table, the reference page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.checkpoints import FULL, FULL_BYTES, FULL_TENSORS
from bench.scheme_pages import BEGIN, END, PAGE, README, between_marks, full_plans, sections, table
from bench.schemes import TOLERANCE, headers_of, reckoned
from schemegen.planner import Plan


@pytest.fixture(scope="module")
def plans() -> Sequence[Plan]:
    return full_plans()


def test_the_layout_is_the_published_models() -> None:
    checkpoint = headers_of(FULL)
    assert (len(checkpoint.tensors), sum(tensor.nbytes for tensor in checkpoint.tensors)) == (FULL_TENSORS, FULL_BYTES)


def test_sizes_are_those_that_were_reckoned_apart(plans: Sequence[Plan]) -> None:
    off = {plan.scheme.name: plan.totals.bytes_out / 1e9 - reckoned(plan.scheme) for plan in plans}
    assert {name: gigabytes for name, gigabytes in off.items() if abs(gigabytes) > TOLERANCE} == {}


def test_reference_page_and_readme_are_fresh(plans: Sequence[Plan]) -> None:
    for path, lines in ((PAGE, sections(plans)), (README, table(plans))):
        text = path.read_text(encoding="utf-8")
        assert (text.count(BEGIN), text.count(END)) == (1, 1)
        assert text == between_marks(text, lines), f"{path.name} is stale: python -m bench.scheme_pages"


def test_the_table_has_a_row_a_scheme(plans: Sequence[Plan]) -> None:
    rows = list(table(plans))[2:]
    assert [row.split("`")[1] for row in rows] == [plan.scheme.name for plan in plans]
    assert all(row.count("|") == 7 for row in rows)
