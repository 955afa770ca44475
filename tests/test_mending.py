"""Stand-ins: what is left of a file is valid, and keeps its names and positions."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.mending import mended
from schemegen.policy import Policy
from schemegen.scheme import Scheme

INT4: dict[str, Any] = {"num_bits": 4, "group_size": 32}
RULE: dict[str, Any] = {"role": "mlp", "use": "int4"}
SCHEME: dict[str, Any] = {
    "schema_version": 1,
    "name": "mine",
    "summary": "s",
    "formats": {"int4": INT4},
    "policy": ["keep-mtp", RULE],
}
POLICY: dict[str, Any] = {"schema_version": 1, "name": "mine", "summary": "s", "rules": [RULE, {"use": "keep"}]}

ANY = "faulty"
Place = tuple[str | int, ...]


@pytest.mark.parametrize(
    ("place", "changes", "left"),
    [
        (("schema_version",), {"schema_version": 2}, {"schema_version": 1}),
        (("name",), {"name": "Mine"}, {"name": "file"}),
        (("summary",), {"summary": 3}, {"summary": "a file with faults"}),
        (("code",), {"code": "import os"}, {}),
        (("kv_cache", "num_bits"), {"kv_cache": {"num_bits": 99}}, {}),
        (("policy",), {"policy": 3}, {"policy": []}),
        (("policy", 0, "name"), {"policy": ["Keep", RULE]}, {"policy": [ANY, RULE]}),
        (("policy", 1, "rule", "rol"), {"policy": ["keep-mtp", {"rol": 3}]}, {"policy": ["keep-mtp", ANY]}),
        (
            ("formats", "int9", "weights", "num_bits"),
            {"formats": {"int9": {"num_bits": 99}, "int4": INT4}},
            {"formats": {"int9": {"num_bits": 8, "strategy": "channel"}, "int4": INT4}},
        ),
        (
            ("formats", "int9"),
            {"formats": {"int9": 3, "int4": INT4}},
            {"formats": {"int9": {"num_bits": 8, "strategy": "channel"}, "int4": INT4}},
        ),
        (("formats", "Int 9", "[key]"), {"formats": {"Int 9": INT4, "int4": INT4}}, {"formats": {"int4": INT4}}),
        (("formats", "keep"), {"formats": {"keep": INT4, "int4": INT4}}, {"formats": {"int4": INT4}}),
    ],
)
def test_a_scheme_keeps_what_is_right(place: Place, changes: dict[str, Any], left: dict[str, Any]) -> None:
    fields = SCHEME | changes
    given = repr(fields)
    found = mended(fields, [place])
    assert found == SCHEME | left
    assert Scheme.model_validate(found).name == found["name"]
    assert repr(fields) == given


def test_missing_fields_get_stand_ins_too() -> None:
    found = mended({"formats": {"int4": INT4}}, [("schema_version",), ("name",), ("summary",), ("policy",)])
    assert Scheme.model_validate(found).formats


def test_stand_ins_in_a_policy_shadow_neither_each_other_nor_the_rest() -> None:
    fields = POLICY | {"rules": [3, 4, *POLICY["rules"]]}
    found = Policy.model_validate(mended(fields, [("rules", 0), ("rules", 1)]))
    assert len(found.rules) == 4
    assert found.rules[2:] == Policy.model_validate(POLICY).rules


@pytest.mark.parametrize("formats", [{}, 3, None])
def test_without_formats_there_are_those_that_rules_use(formats: object) -> None:
    fields = SCHEME | {"formats": formats, "policy": ["keep-mtp", RULE, {"use": "keep"}, {"use": "B B"}, {"use": 3}]}
    assert list(mended(fields, [("formats",)])["formats"]) == ["int4"]
    assert Scheme.model_validate(mended(SCHEME | {"formats": formats}, [("formats",)])).policy[1:]
    assert Scheme.model_validate(mended(SCHEME | {"formats": formats, "policy": "x"}, [("formats",)])).formats


def test_a_format_with_two_faults_leaves_the_rest() -> None:
    fields = SCHEME | {"formats": {"Int 9": {"num_bits": 99}, "int4": INT4}}
    places: list[Place] = [("formats", "Int 9", "[key]"), ("formats", "Int 9", "weights", "num_bits")]
    assert mended(fields, places) == SCHEME
