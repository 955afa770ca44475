"""Rules: what they select, and what they cannot reach."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemegen.architectures.base import PROTECTED_ROLES, ExpertLayout, Part, Role, TensorInfo
from schemegen.rule import Rule


def info(role: Role = Role.ATTENTION, part: Part = Part.TEXT, layer: int | None = 0, **rest: Any) -> TensorInfo:
    values = {"name": "a.q_proj.weight", "expert": None, "projection": "q", "experts": None, "ignore": None} | rest
    return TensorInfo(role=role, part=part, layer=layer, **values)


def rule(**fields: Any) -> Rule:
    return Rule.model_validate({"use": "int4", **fields})


@pytest.mark.parametrize("layers", ["", "a", "1-", "1,,2", "1 - 2", "--1", "0..3"])
def test_layers_that_are_not_spans_are_refused(layers: str) -> None:
    with pytest.raises(ValidationError):
        rule(layers=layers)


@pytest.mark.parametrize(
    ("fields", "tensor", "matches"),
    [
        ({"role": "attention"}, info(), True),
        ({"role": ["mlp", "attention"]}, info(), True),
        ({"role": "mlp"}, info(), False),
        ({"role": "*"}, info(), True),
        ({}, info(), True),
        ({"part": "mtp"}, info(), False),
        ({"part": "mtp"}, info(part=Part.MTP), True),
        ({"layers": "0"}, info(layer=0), True),
        ({"layers": "0"}, info(layer=0, part=Part.MTP), False),
        ({"layers": "0", "part": "mtp"}, info(layer=0, part=Part.MTP), True),
        ({"layers": "-1"}, info(layer=7), True),
        ({"layers": "-1"}, info(layer=None), False),
        ({"projection": "q"}, info(), True),
        ({"projection": ["k", "v"]}, info(), False),
        ({"name": r"re:.*\.q_proj\.weight$"}, info(), True),
        ({"name": "re:q_proj"}, info(), False),
    ],
)
def test_a_rule_selects_what_every_field_matches(fields: dict[str, Any], tensor: TensorInfo, matches: bool) -> None:
    assert rule(**fields).matches(tensor, 8) is matches


@pytest.mark.parametrize(
    ("projection", "kept", "quantized"),
    [("gate", True, False), ("down", False, False), (["up", "down"], True, False), (["up", "gate"], True, True)],
)
def test_a_stack_is_kept_for_one_projection_and_quantized_for_all(projection: Any, kept: bool, quantized: bool) -> None:
    layout = ExpertLayout(("gate", "up"), rows=len, columns=len, experts=len)
    stack = info(Role.ROUTED_EXPERT, projection=None, experts=layout)
    assert rule(projection=projection, use="keep").matches(stack, 8) is kept
    assert rule(projection=projection).matches(stack, 8) is quantized


@pytest.mark.parametrize(
    ("fields", "reached"),
    [
        ({"role": "attention"}, {"text", "mtp", "vision", "audio"}),
        ({}, {"text", "mtp"}),
        ({"use": "keep"}, {"text", "mtp", "vision", "audio"}),
        ({"layers": "0"}, {"text"}),
        ({"layers": "0", "part": "mtp"}, {"mtp"}),
        ({"layers": "0", "part": "vision"}, set()),
        ({"role": ["mlp", "norm"]}, set()),
    ],
)
def test_the_parts_in_which_a_rule_reaches_attention(fields: dict[str, Any], reached: set[str]) -> None:
    assert {part for part in Part if rule(**fields).reaches(Role.ATTENTION, part)} == reached


@pytest.mark.parametrize("role", sorted(PROTECTED_ROLES))
def test_protected_roles_are_reached_only_by_name(role: Role) -> None:
    assert not rule(role="*").matches(info(role), 8)
    assert rule(role=role.value).matches(info(role), 8)


@pytest.mark.parametrize("part", [Part.VISION, Part.AUDIO])
def test_towers_are_protected_whole(part: Part) -> None:
    assert not rule(role="*").matches(info(part=part), 8)
    assert not rule(part=part.value).matches(info(part=part), 8)
    assert rule(role="attention").matches(info(part=part), 8)


def test_keeping_needs_no_permission() -> None:
    assert rule(role="*", use="keep").matches(info(Role.ROUTER), 8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": []}, "may not be empty"),
        ({"projection": []}, "may not be empty"),
        ({"part": "texts"}, "did you mean text"),
        ({"part": "xyz"}, "known are text, mtp, vision, audio"),
        ({"layers": 2}, "names no layers"),
        ({"name": "re:("}, "not a regular expression"),
        ({"name": "experts"}, "is no pattern"),
        ({"use": ""}, "use"),
        ({"roles": "mlp"}, "roles"),
    ],
)
def test_a_faulty_rule_says_what_is_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        rule(**fields)


def test_a_wrong_value_is_quoted_in_short() -> None:
    for fields in ({"role": "x" * 5000}, {"part": "x" * 5000}, {"layers": "x" * 5000}, {"name": "x" * 5000}):
        with pytest.raises(ValidationError) as caught:
            rule(**fields)
        assert all(len(fault["msg"]) < 300 for fault in caught.value.errors())
