"""What is told of schemes is what their files and plans say."""

from __future__ import annotations

from bench.checkpoints import FULL, FULL_BYTES, FULL_TENSORS
from bench.schemes import TOLERANCE, headers_of, reckoned
from docs.writing.schemes import FIRST, full_plans, readme, table


def test_the_layout_is_the_published_models() -> None:
    checkpoint = headers_of(FULL)
    assert (len(checkpoint.tensors), sum(tensor.nbytes for tensor in checkpoint.tensors)) == (FULL_TENSORS, FULL_BYTES)


def test_sizes_are_those_that_were_reckoned_apart() -> None:
    off = {plan.scheme.name: plan.totals.bytes_out / 1e9 - reckoned(plan.scheme) for plan in full_plans()}
    assert {name: gigabytes for name, gigabytes in off.items() if abs(gigabytes) > TOLERANCE} == {}


def test_the_table_has_a_row_a_scheme() -> None:
    rows = list(table(full_plans()))[2:]
    assert [row.split("`")[1] for row in rows] == [plan.scheme.name for plan in full_plans()]
    assert all(row.count("|") == 7 for row in rows)


def test_the_readme_has_those_to_begin_with() -> None:
    assert [row.split("`")[1] for row in list(readme())[2:]] == list(FIRST)
