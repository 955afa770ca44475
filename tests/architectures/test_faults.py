"""What is built wrongly is refused when it is made, in words that say what it must be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from schemegen.architectures.base import Architecture, ExpertLayout, Part, Role, TensorRule
from schemegen.errors import UnsupportedError

RULE = TensorRule(r"l(?P<layer>\d+)", Role.MLP)


def architecture(**changes: Any) -> Architecture:
    sound: dict[str, Any] = {
        "name": "toy",
        "summary": "s",
        "model_types": ("toy",),
        "rules": (RULE,),
        "depth": lambda config, part: 1,
        "experts": lambda config: 1,
        "part_ignores": {},
    }
    return Architecture(**sound | changes)


def layout(**changes: Any) -> ExpertLayout:
    sound: dict[str, Any] = {"projections": ("gate", "up"), "rows": len, "columns": len, "experts": len}
    return ExpertLayout(**sound | changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"experts": "zz"}, "experts is str 'zz', and must be an ExpertLayout or None"),
        ({"experts": ExpertLayout}, "experts is the class ExpertLayout, and must"),
        ({"projections": ["w1"]}, "projections is list ['w1'], and must map a stored name to the canonical one"),
        ({"projections": {"w1": 1}}, "projections is dict {'w1': 1}, and must map"),
    ],
)
def test_a_rule_has_a_layout_and_a_mapping_or_none(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(f"the TensorRule of 'a': {told}")):
        TensorRule("a", Role.MLP, **changes)


@pytest.mark.parametrize("fusions", [None, (), {"qkv": "q"}, {"qkv": ("q", 1)}, {1: ("q",)}, {"qkv": {"q"}}])
def test_fusions_map_a_name_to_several(fusions: object) -> None:
    told = f"architecture toy: fusions is .*{re.escape(repr(fusions)) if fusions is not None else 'None'}, and must map"
    with pytest.raises(UnsupportedError, match=told):
        architecture(fusions=fusions)
    assert list(architecture(fusions={"qkv": ["q", "k"]}).fusions["qkv"]) == ["q", "k"]


@pytest.mark.parametrize("renames", [None, "ab", ("ab",), (("a",),), (("a", "b", "c"),), (("a", 1),), {"a": "b"}])
def test_renames_are_pairs(renames: object) -> None:
    with pytest.raises(UnsupportedError, match=r"toy: renames is .*, and must be a tuple of pairs \(old prefix, new"):
        architecture(renames=renames)


def test_rules_that_are_read_once_become_a_tuple() -> None:
    toy = architecture(rules=(rule for rule in [RULE]))
    assert toy.rules == (RULE,)
    assert [toy.identify(name).layer for name in ("l1", "l2")] == [1, 2]


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (None, "rules is NoneType None, and must be a tuple of TensorRules"),
        (RULE, "rules is TensorRule TensorRule("),
        ("ab", "rules has str 'a' in it, and must be a tuple of TensorRules"),
        ((RULE, TensorRule), "rules has the class TensorRule in it"),
        (iter([RULE, 7]), "rules has int 7 in it"),
    ],
)
def test_rules_are_rules(rules: object, told: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(f"architecture toy: {told}")):
        architecture(rules=rules)


@pytest.mark.parametrize("ignores", [None, ["x"], {"mtp": "x"}, {Part.MTP: None}, {Part.MTP: 1}])
def test_part_ignores_map_parts_to_patterns(ignores: object) -> None:
    with pytest.raises(UnsupportedError, match=r"toy: part_ignores is .*, and must map schemegen\.Part to a regular"):
        architecture(part_ignores=ignores)


@pytest.mark.parametrize("words", [("",), ("toy", " \t"), [""]])
def test_a_model_type_is_not_blank(words: object) -> None:
    with pytest.raises(UnsupportedError, match="architecture toy: model_types has a blank name; name the model_type"):
        architecture(model_types=words)


@pytest.mark.parametrize("changes", [{"pattern": 7}, {"pattern": "a", "ignore": 7}])
def test_a_pattern_is_text(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="architecture toy: the pattern 7 is not a regular expression"):
        architecture(rules=[TensorRule(role=Role.MLP, **changes)])


@pytest.mark.parametrize("projections", ["gu", (), None, ("gate", 1), ("gate", " ")])
def test_a_layout_has_projections(projections: object) -> None:
    with pytest.raises(UnsupportedError, match=r"projections of an ExpertLayout is .*, and must be a tuple of names"):
        layout(projections=projections)


@pytest.mark.parametrize("name", ["rows", "columns", "experts"])
def test_a_layout_has_functions(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"an ExpertLayout: {name} is no function; give one of the config"):
        layout(**{name: 4})


@pytest.mark.parametrize(
    ("template", "field"),
    [("same", "expert"), ("{module}.{projection}", "expert"), ("{module}.{expert}", "projection")],
)
def test_a_template_tells_matrices_apart(template: str, field: str) -> None:
    told = f"template '{template}' of an ExpertLayout gives every {field} one name; put {{{field}}} into it"
    with pytest.raises(UnsupportedError, match=re.escape(told)):
        layout(template=template)


def test_a_template_is_text_and_of_one_projection_needs_no_name() -> None:
    with pytest.raises(
        UnsupportedError, match=r"template of an ExpertLayout is NoneType None; give text with \{module"
    ):
        layout(template=None)
    alone = layout(projections=("down",), template="{module}.{expert}")
    assert alone.module_names("m", 2) == [(0, "down", "m.0"), (1, "down", "m.1")]
