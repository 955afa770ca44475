"""JSON schemas in words."""

from __future__ import annotations

from typing import Any

import pytest

from docs.writing.types_in_words import in_words


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "pattern": "^x$"}, "name"),
        ({"type": "boolean"}, "`true` or `false`"),
        ({"type": "integer"}, "whole number"),
        ({"type": "integer", "minimum": 1}, "whole number, at least 1"),
        ({"type": "integer", "minimum": 1, "maximum": 16}, "whole number, 1 to 16"),
        ({"const": 1}, "`1`"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "text or list, each text"),
        ({"type": "array", "prefixItems": [{"type": "integer"}] * 2}, "list of 2, each whole number"),
        (
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/Format"}},
            "mapping of names to [Format](#format)",
        ),
        ({"type": "object", "patternProperties": {"x": {"type": "string"}}}, "mapping of names to text"),
        ({"type": "object"}, "mapping"),
        ({"$ref": "#/$defs/Other"}, "`x`"),
        ({}, "anything"),
    ],
)
def test_in_words(schema: dict[str, Any], words: str) -> None:
    assert in_words(schema, {"Other": {"enum": ["x"]}}) == words
