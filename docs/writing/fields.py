"""reference/scheme-file.md: every field of every model that a person writes, from the models themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.writing.markdown import doc, table
from docs.writing.types_in_words import in_words
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Calibration, Format, Method, Quantization, Scheme

MODELS: Final[tuple[type[BaseModel], ...]] = (Scheme, Format, Quantization, Rule, Policy, Method, Calibration)
#: Where a model takes more than its JSON schema says, since it reads short forms.
_VALUES: Final = {
    ("Scheme", "policy"): "name, or list of names and [rules](#rule)",
    ("Scheme", "method"): "name or [Method](#method)",
}
_IMPLIED: Final = {("Quantization", "strategy"): "implied"}
_HEAD: Final = ("field", "value", "default", "meaning")
_INTRODUCTION: Final = """\
# Scheme files and policy files

A file is YAML, read as it is written: an unknown field is an error, text is not taken for a number, and nothing in it
is ever run. `schemegen check FILE` tells every fault of a file at once. JSON schemas for editors are
[scheme.schema.json](scheme.schema.json) and [policy.schema.json](policy.schema.json);
`schemegen check --schema scheme` and `schemegen check --schema policy` print them.

```yaml
schema_version: 1
name: attention-at-8-bits
summary: INT4 on routed experts, INT8 on attention, the rest as shipped
formats:
  int4: {num_bits: 4, type: int, strategy: group, group_size: 32, symmetric: true}
  int8: {num_bits: 8, type: int, strategy: channel, symmetric: true}
policy:
  - keep-mtp
  - {role: routed_expert, use: int4}
  - {role: attention, part: text, use: int8}
```"""


def page() -> Iterator[str]:
    """The page."""
    yield from (_INTRODUCTION, "")
    for model in MODELS:
        yield from (f"## {model.__name__}", "", doc(model), "")
        yield from table(_HEAD, (_row(model, name, found) for name, found in model.model_fields.items()))
        yield ""


def _row(model: type[BaseModel], name: str, found: FieldInfo) -> tuple[str, str, str, str]:
    whole, key = model.model_json_schema(), (model.__name__, name)
    value = _VALUES.get(key) or in_words(whole["properties"][name], whole.get("$defs", {}))
    return f"`{name}`", value, _IMPLIED.get(key) or _default(found), found.description or ""


def _default(found: FieldInfo) -> str:
    if found.is_required():
        return "required"
    value: Any = found.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Method):
        value = value.name
    return "" if value in (None, {}, ()) else f"`{str(value).lower() if isinstance(value, bool) else value}`"
