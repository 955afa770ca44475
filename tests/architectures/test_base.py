"""What every architecture is held to: patterns that compile, numbers spelled one way, sizes that are sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schemegen.architectures.base import Architecture, Part, Role, TensorRule, config_int
from schemegen.errors import CheckpointError, UnsupportedError


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


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, [1], 1 << 63, [[[]]]])
def test_a_size_is_a_whole_number_from_one(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: a\.b is .*; the architecture needs .* at least 1"):
        config_int({"a": {"b": value}}, "a", "b")


def test_a_count_may_be_none_where_it_may() -> None:
    assert config_int({"a": 0}, "a", minimum=0) == 0
    with pytest.raises(CheckpointError, match="at least 0"):
        config_int({"a": -1}, "a", minimum=0)


@pytest.mark.parametrize("config", [{}, {"a": None}, {"a": {}}, {"a": {"b": None}}])
def test_what_is_missing_has_a_default_if_given(config: dict[str, Any]) -> None:
    assert config_int(config, "a", "b", default=0) == 0
    with pytest.raises(CheckpointError, match=r"a\.b is None"):
        config_int(config, "a", "b")


@pytest.mark.parametrize("value", [5, "text", [1]])
def test_a_path_through_something_else_is_refused_even_with_a_default(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: a is .*, not an object"):
        config_int({"a": value}, "a", "b", default=0)


def test_a_default_does_not_cover_a_wrong_value() -> None:
    with pytest.raises(CheckpointError, match=r"a is 'x'"):
        config_int({"a": "x"}, "a", default=0)
