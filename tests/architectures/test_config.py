"""What is read of config.json: sizes that are sizes."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.architectures.config import config_int
from schemegen.errors import CheckpointError


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
