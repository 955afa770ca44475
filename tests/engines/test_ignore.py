"""Matching as engines do it, and what a file may hold as `ignore`."""

from __future__ import annotations

import pytest

from schemegen.architectures.base import Part, Role
from schemegen.engines.ignore import check_ignore, ignore_list, is_ignore_list
from schemegen.engines.modules import Module
from schemegen.engines.patterns import is_entry, matches
from schemegen.errors import PlanError

STRANGE = [
    "re:(",
    "re:(a*)*b",
    "re:a{99999999999999}",
    "re:" + "(" * 5000,
    "re:" + "(" * 4 + ")" * 3,
    "re:.*a.*b.*c",
    "re:(a|a)(a|a)(a|a)(a|a)(a|a)b",
    r"re:\d+\d+\d+b",
    r"re:\.\d+5",
    r"re:\w",
    r"re:a\.*b",
    "re:[a-z]",
    "re:(?=a)",
    "re:(?i)a",
    "re:a?",
    "re:)",
    "re:" + "a" * 501,
]


@pytest.mark.parametrize("entry", STRANGE, ids=range(len(STRANGE)))
def test_patterns_that_schemegen_does_not_write_are_not_run(entry: str) -> None:
    assert not is_entry(entry)
    with pytest.raises(PlanError, match="no pattern for ignore"):
        check_ignore([module("m.up", None)], [entry])


@pytest.mark.parametrize(
    "entry",
    [
        "lm_head",
        "(",
        "re:.*lm_head$",
        r"re:.*mtp\..*",
        r"re:.*(model\.layers\.\d+\.mlp\.experts|language_model\.layers\.\d+)(\..*)?$",
        r"re:.*linear_attn\.in_proj_(a|b|ba)$",
        r"re:^a\-b\.\d+$",
    ],
)
def test_patterns_that_schemegen_writes_are_entries(entry: str) -> None:
    assert is_entry(entry)


def module(name: str, format: str | None, ignore: str | None = None) -> Module:
    renames = (("lm_head", "language_model.lm_head"),)
    return Module(name, name, Role.MLP, Part.TEXT, ignore, format, renames)


@pytest.mark.parametrize(
    ("name", "entry", "hit"),
    [
        ("a.lm_head", "lm_head", False),
        ("lm_head", "lm_head", True),
        ("a.lm_head", "re:.*lm_head$", True),
        ("a.lm_head", "re:lm_head", False),
        ("a.lm_heads", "re:.*lm_head$", False),
    ],
)
def test_regexes_match_from_the_start_and_names_in_full(name: str, entry: str, hit: bool) -> None:
    assert matches(name, [entry]) is hit


def test_the_most_general_candidate_that_hits_nothing_quantized_is_taken() -> None:
    kept = module("m.layers.0.mlp.up", None, r"mlp\..*")
    assert ignore_list([kept], {Part.TEXT: r"m\..*"}) == [r"re:.*m\..*"]
    assert ignore_list([kept, module("m.head", "int4")], {Part.TEXT: r"m\..*"}) == [r"re:.*mlp\..*"]
    quantized = module("m.layers.1.mlp.down", "int4")
    assert ignore_list([kept, quantized], {Part.TEXT: r"m\..*"}) == [r"re:.*m\.layers\.\d+\.mlp\.up$"]
    same_place = module("m.layers.1.mlp.up", "int4")
    assert ignore_list([kept, same_place], {Part.TEXT: r"m\..*"}) == [r"re:.*m\.layers\.0\.mlp\.up$"]


def test_an_entry_that_others_cover_is_left_out() -> None:
    modules = [module("m.attn.a", None, r"attn\.a$"), module("m.attn.b", None, r"attn\..*")]
    assert ignore_list(modules, {}) == [r"re:.*attn\..*"]


def test_a_module_that_no_entry_can_tell_apart_is_an_error() -> None:
    with pytest.raises(PlanError, match=r"kept module m\.up"):
        ignore_list([module("m.up", None), module("model.m.up", "int4")], {})


@pytest.mark.parametrize(
    ("modules", "entries", "message"),
    [
        ([module("m.up", None)], ["re:.*down$"], r"m\.up is kept"),
        ([module("m.up", "int4")], ["re:.*up$"], r"m\.up is quantized"),
        ([module("lm_head", None)], ["lm_head"], r"language_model\.lm_head is kept"),
    ],
)
def test_a_list_that_does_not_fit_is_an_error(modules: list[Module], entries: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check_ignore(modules, entries)


@pytest.mark.parametrize("value", [None, "re:.*", {"a": 1}, [1], ["re:("], ["re:.*", None], [STRANGE[0]]])
def test_what_is_no_ignore_list_is_told(value: object) -> None:
    assert not is_ignore_list(value)


def test_names_and_regexes_are_an_ignore_list() -> None:
    assert is_ignore_list(["lm_head", "re:.*mtp\\..*", "("])
