"""What every architecture is held to: patterns that compile, numbers spelled one way."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from schemegen.architectures.base import Architecture, ExpertLayout, Part, Role, TensorRule
from schemegen.errors import UnsupportedError


def architecture(*patterns: str) -> Architecture:
    return Architecture(
        name="toy",
        summary="s",
        model_types=("toy",),
        rules=tuple(TensorRule(pattern, Role.MLP) for pattern in patterns),
        depth=lambda config, part: 1,
        experts=lambda config: 1,
        part_ignores={},
    )


def test_a_broken_pattern_is_found_when_the_architecture_is_made() -> None:
    with pytest.raises(UnsupportedError, match=r"architecture toy: the pattern 'b\(' is not a regular expression: "):
        architecture("a", "b(")


def test_a_broken_ignore_is_found_too() -> None:
    sound = architecture("a")
    with pytest.raises(UnsupportedError, match=r"the pattern 'x\[' is not"):
        replace(sound, part_ignores={Part.MTP: "x["})
    with pytest.raises(UnsupportedError, match=r"the pattern 'y\)' is not"):
        replace(sound, rules=(replace(sound.rules[0], ignore="y)"),))


@pytest.mark.parametrize("number", ["0", "1", "10", "999999"])
def test_plain_numbers_are_read(number: str) -> None:
    assert architecture(r"l(?P<layer>\d+)").identify(f"l{number}").layer == int(number)
    assert architecture(r"(l(?P<expert>\d+))?x").identify("x").expert is None


@pytest.mark.parametrize("number", ["01", "00", "+1", "-1", "1_0", "\u0661", "1000000", "9" * 5000])
@pytest.mark.parametrize("group", ["layer", "expert"])
def test_other_spellings_of_a_number_are_unknown_names(number: str, group: str) -> None:
    with pytest.raises(UnsupportedError, match="unknown to architecture toy") as caught:
        architecture(rf"l(?P<{group}>.+)").identify(f"l{number}")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("group", "hint"), [("layr", "did you mean layer?"), ("zzz", "known are layer, expert, projection")]
)
def test_a_group_that_nothing_reads_is_found_when_the_architecture_is_made(group: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(f"names a group {group}; {hint}")):
        architecture(rf"l(?P<{group}>\d+)")


def test_roles_and_parts_are_those_that_there_are() -> None:
    rule: Any = TensorRule("a", "mlp")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"architecture toy: 'mlp' is no Role; take one of schemegen\.Role"):
        replace(architecture("a"), rules=(rule,))
    rule = TensorRule("a", Role.MLP, "texts")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"'texts' is no Part; take one of schemegen\.Part"):
        replace(architecture("a"), rules=(rule,))


def test_what_nothing_can_be_asked_of_is_none() -> None:
    with pytest.raises(UnsupportedError, match="architecture toy: depth is no function; give one of the config"):
        replace(architecture("a"), depth=None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="architecture toy: model_types is empty"):
        replace(architecture("a"), model_types=())


@pytest.mark.parametrize("template", ["{modul}.{expert}", "{module", "{0}", "{module.x}", "{expert[0]}"])
def test_a_template_names_what_an_expert_has(template: str) -> None:
    with pytest.raises(
        UnsupportedError, match=r"of an ExpertLayout does not fit .*; it may name \{module\}, \{expert\}"
    ):
        ExpertLayout(("up",), lambda config: 1, lambda config: 1, lambda config: 1, template)


def test_a_projection_that_no_mapping_has_is_told_with_its_tensor() -> None:
    rule = TensorRule(r"(?P<projection>w1|w2)\.weight", Role.MLP, projections={"w1": "gate"})
    toy = replace(architecture("a"), rules=(rule,))
    assert toy.identify("w1.weight").projection == "gate"
    told = "tensor 'w2.weight': the rule of architecture toy that knows it has no 'w2' in its projections; add it there"
    with pytest.raises(UnsupportedError, match=re.escape(told)):
        toy.identify("w2.weight")


def test_every_kind_of_unknown_name_is_told_at_once() -> None:
    toy = architecture(r"a(?P<layer>\d+)")
    assert [info.layer for info in toy.identify_all(["a0", "a1"])] == [0, 1]
    with pytest.raises(
        UnsupportedError, match=r"^tensor 'b\.0' \(and 2 more of its kind\) is unknown to architecture toy; "
    ):
        toy.identify_all(["b.0", "a0", "b.1", "b.22"])
    names = [f"{kind}.{number}" for kind in "bcdefghijk" for number in (0, 17)]
    with pytest.raises(UnsupportedError) as caught:
        toy.identify_all(names)
    head, *lines, advice = str(caught.value).splitlines()
    assert head == "10 kinds of tensor are unknown to architecture toy:"
    assert lines == [f"  '{kind}.0' (and 1 more of its kind)" for kind in "bcdefghi"] + ["  and 2 more kinds"]
    assert "TensorRule" in advice
    assert "plugin" in advice
