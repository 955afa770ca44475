"""Patterns: they stand for the names that they were made from, each name once, and for no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.cli.spelling import spelled


def meant(pattern: str) -> Iterator[str]:
    """All names that a pattern stands for."""
    choices = [list(choice(part)) for part in re.split(r"(\{[^}]*\})", pattern)]
    return map("".join, product(*choices))


def choice(part: str) -> Iterator[str]:
    if not part.startswith("{"):
        yield part
        return
    for item in part[1:-1].split(","):
        first, dash, last = item.partition("-")
        yield from map(str, range(int(first), int(last) + 1)) if dash else [item]


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        ([], []),
        (["lm_head"], ["lm_head"]),
        ([f"l.{n}.w" for n in (0, 1, 2, 4, 11, 10)], ["l.{0-2,4,10-11}.w"]),
        ([f"{e}.{p}_proj" for e in range(3) for p in ("gate", "up")], ["{0-2}.{gate,up}_proj"]),
        (["0.up", "0.gate", "1.gate", "1.up"], ["{0-1}.{gate,up}"]),
        (["0.a", "0.b", "1.a"], ["0.{a,b}", "1.a"]),
        (["in_proj_a", "in_proj_b"], ["in_proj_{a,b}"]),
        (["aa", "aaa"], ["{aa,aaa}"]),
        (["attn_norm", "ffn_norm"], ["{attn,ffn}_norm"]),
        (["norm1", "norm2"], ["norm{1,2}"]),
        (["k", "k_norm"], ["k{,_norm}"]),
        (["norm", "x.norm"], ["norm", "x.norm"]),
        (["0", "00"], ["{0,00}"]),
    ],
)
def test_patterns(names: list[str], patterns: list[str]) -> None:
    assert list(spelled(names)) == patterns


words = st.one_of(st.integers(0, 12).map(str), st.sampled_from(["gate_proj", "up_proj", "down", "0x", "x0", "x"]))
some_names = st.lists(st.lists(words, min_size=1, max_size=4).map(".".join), unique=True, max_size=30)


@settings(deadline=None)
@given(some_names)
def test_they_stand_for_the_names_and_no_other(names: list[str]) -> None:
    found = spelled(names)
    assert sorted(name for pattern in found for name in meant(pattern)) == sorted(names)
    assert all(sorted(meant(pattern)) == sorted(members) for pattern, members in found.items())


@settings(deadline=None)
@given(some_names.flatmap(lambda names: st.tuples(st.just(names), st.permutations(names))))
def test_equal_names_are_grouped_alike_in_any_order(pair: tuple[list[str], list[str]]) -> None:
    names, shuffled = pair
    assert {*spelled(names)} == {*spelled(shuffled)}
