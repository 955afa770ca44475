"""JSON schemas of scheme and policy files, for editors: they take what the loader takes.

pydantic derives them from the models, but knows nothing of what validators take or refuse; that is added here. Beyond a
schema stays what one place of a file says about another: names of formats that rules use, and rules that others shadow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from schemegen.errors import UnknownNameError
from schemegen.layers import LAYERS_PATTERN
from schemegen.policy import Policy
from schemegen.registry import NAME_PATTERN, YAML_SUFFIXES
from schemegen.scheme import RESERVED, Scheme

Schema = dict[str, Any]

KINDS: Final[Mapping[str, type[Scheme | Policy]]] = {"scheme": Scheme, "policy": Policy}
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAME: Final[Schema] = {"type": "string", "pattern": f"^{NAME_PATTERN.pattern}$"}
_LINE: Final = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"
_FILE: Final = f"({'|'.join(map(re.escape, YAML_SUFFIXES))})$"
_LAYERS: Final = f"^{LAYERS_PATTERN}$"
_GROUPED: Final = ["group", "tensor_group"]


class _Plain(GenerateJsonSchema):
    """Without the titles that pydantic makes from the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_title_from_name(self, name: str) -> str:
        return name


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of scheme or policy files; UnknownNameError for another kind."""
    if kind not in KINDS:
        raise UnknownNameError("kind of file", kind, KINDS)
    schema = _told(KINDS[kind].model_json_schema(schema_generator=_Plain))
    schema["properties"]["name"]["not"] = {"pattern": _FILE}
    _amend_rule(schema["$defs"]["Rule"]["properties"])
    if kind == "scheme":
        _amend_scheme(schema)
    head = {"$schema": DRAFT, "$id": f"urn:schemegen:{kind}:1", "title": f"schemegen {kind} file"}
    return {**head, **{key: value for key, value in schema.items() if key != "title"}}


def _told(node: Any) -> Any:
    """The same as editors show it and as every release of pydantic says it, with lines that are lines."""
    if isinstance(node, list):
        return [_told(item) for item in node]
    if not isinstance(node, dict):
        return node
    told: Schema = {}
    for key, value in node.items():
        told |= _keyword(key, _told(value))
    if "maxLength" in told:
        told["pattern"] = _LINE
    if "const" in told:
        return {key: value for key, value in told.items() if key not in ("enum", "type")}
    return told


def _keyword(key: str, value: Any) -> Schema:
    """A keyword and its value; nothing where that says nothing, one paragraph of a description."""
    if (key, value) in (("default", None), ("additionalProperties", True)):
        return {}
    if key == "description" and isinstance(value, str):
        return {key: " ".join(value.partition("\n\n")[0].split())}
    return value[0] if key == "allOf" and len(value) == 1 else {key: value}


def _amend_rule(fields: Schema) -> None:
    fields["role"]["minItems"] = fields["projection"]["minItems"] = 1
    fields["layers"]["pattern"] = _LAYERS
    fields["name"]["pattern"] = "^re:"


def _amend_scheme(schema: Schema) -> None:
    fields, models = schema["properties"], schema["$defs"]
    for name in ("formats", "served_by"):
        fields[name]["additionalProperties"] = False
    fields["formats"]["propertyNames"] = {"not": {"enum": list(RESERVED)}}
    fields["policy"] = _either(fields["policy"], _NAME, {"type": "array", "items": {"anyOf": [_NAME, _ref("Rule")]}})
    _amend_quantization(models["Quantization"])
    models["Strategies"] = _strategies()
    models["FormatInShort"] = _short_format(models["Format"], models["Quantization"])
    models["FormatInFull"] = models["Format"]
    models["Format"] = _either(models["Format"], _ref("FormatInShort"), _ref("FormatInFull"))
    models["MethodWithOptions"] = models["Method"]
    models["Method"] = _either(models["Method"], _NAME, _ref("MethodWithOptions"))


def _amend_quantization(model: Schema) -> None:
    """Strategies are inferred where they are left out, block sizes are a list, dtypes may be spelled as torch's."""
    fields = model["properties"]
    fields["strategy"] = {"enum": [*fields["strategy"]["enum"], None], **_description(fields["strategy"])}
    sizes = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2}
    fields["block_structure"] = _either(fields["block_structure"], sizes, {"type": "null"})
    for name in ("scale_dtype", "zp_dtype"):
        plain = fields[name]["anyOf"][0]["enum"]
        fields[name] = {"enum": [*plain, *(f"torch.{dtype}" for dtype in plain), None], **_description(fields[name])}
    del model["required"]
    model["allOf"] = [_ref("Strategies")]


def _strategies() -> Schema:
    """Which strategy goes with which size, where it is told and where the size tells it."""
    rules = [
        _implied(_has("strategy", {"enum": _GROUPED}), _has("group_size", {"type": "integer"})),
        _implied(_has("group_size", {"type": "integer"}), _may("strategy", {"enum": [*_GROUPED, None]})),
        _implied(_has("strategy", {"const": "block"}), _has("block_structure", {"type": "array"})),
        _implied(_has("block_structure", {"type": "array"}), _may("strategy", {"enum": ["block", None]})),
        _implied(_has("block_structure", {"type": "array"}), _may("group_size", {"type": "null"})),
    ]
    return {"allOf": rules}


def _short_format(full: Schema, weights: Schema) -> Schema:
    """A format that is the fields of its weights, which `num_bits` marks, and what stands beside weights."""
    fields = {name: _ref(f"Quantization/properties/{name}") for name in weights["properties"]}
    fields |= {name: _ref(f"FormatInFull/properties/{name}") for name in full["properties"] if name != "weights"}
    told = {**weights, **_description(full)}
    return {**told, "title": "FormatInShort", "properties": fields, "required": ["num_bits"]}


def _either(told: Schema, *kinds: Schema) -> Schema:
    """One of several kinds, with what was told of the field or model."""
    return {"anyOf": list(kinds), **_description(told), **({"default": told["default"]} if "default" in told else {})}


def _description(told: Schema) -> Schema:
    return {"description": told["description"]} if "description" in told else {}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _implied(given: Schema, then: Schema) -> Schema:
    return {"if": given, "then": then}


def _has(name: str, value: Schema) -> Schema:
    return {"required": [name], **_may(name, value)}


def _may(name: str, value: Schema) -> Schema:
    return {"properties": {name: value}}
