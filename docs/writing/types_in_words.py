"""A JSON schema in words, for a cell of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]
_PLAIN: Final = {"boolean": "`true` or `false`", "string": "text", "number": "number", "object": "mapping"}
#: Models and lists of words that a page tells apart.
_LINKS: Final = {
    "Role": "[role](roles.md)",
    "Part": "[part](roles.md#parts)",
    "Format": "[Format](#format)",
    "Quantization": "[Quantization](#quantization)",
    "Rule": "[Rule](#rule)",
    "Method": "[Method](#method)",
    "Calibration": "[Calibration](#calibration)",
}


def in_words(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """What a value may be: values as code, models as links, `null` left out."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _LINKS[name] if name in _LINKS else in_words(definitions[name], definitions)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            found = [in_words(each, definitions) for each in schema[key] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(found))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    return _of_type(schema, definitions)


def _of_type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    type_ = schema.get("type")
    if type_ == "integer":
        return _number(schema)
    if type_ == "array":
        return _list(schema, definitions)
    for further in (schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()):
        if isinstance(further, Mapping):
            return f"mapping of names to {in_words(further, definitions)}"
    if type_ == "string" and "pattern" in schema:
        return "name"
    return _PLAIN.get(type_, "anything") if isinstance(type_, str) else "anything"


def _number(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"whole number, {low} to {high}"
    return "whole number" if low is None else f"whole number, at least {low}"


def _list(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    if "prefixItems" in schema:
        return f"list of {len(schema['prefixItems'])}, each {in_words(schema['prefixItems'][0], definitions)}"
    return f"list, each {in_words(schema.get('items', {}), definitions)}"
