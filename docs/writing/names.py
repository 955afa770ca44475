"""reference/api.md: every public name of `schemegen` and `schemegen.testing`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from pydantic import BaseModel

import schemegen
from docs.writing.markdown import block, code, doc, escaped, table
from docs.writing.signatures import attributes, members, signature

#: The public names by what they are for; a test holds it complete. Errors have a page of their own.
GROUPS: Final = {
    "Plan, apply, verify": (
        "plan",
        "explain",
        "apply",
        "verify",
        "inspect",
        "describe",
        "Plan",
        "Explanation",
        "Result",
        "Inspection",
    ),
    "Scheme and policy files": (
        *("load_scheme", "load_schemes", "load_policy", "load_policies", "check", "json_schema"),
        *("Scheme", "Format", "Policy", "Rule"),
    ),
    "Plugins": ("hookimpl",),
    "Backends": ("Backend", "WeightBackend", "Weights", "Buffers", "NonFiniteWeight"),
    "Architectures": ("Architecture", "TensorRule", "ExpertLayout", "Role", "Part", "config_int"),
    "Version": ("__version__",),
}
#: What has no docstring of its own to show, or another's.
PLAIN: Final = {
    "hookimpl": "Marks a function as a plugin's implementation of the [hook](hooks.md) of its name.",
    "Buffers": "What a backend fills: a mapping of suffix to array, of one chunk, `[matrices, rows, …]`, as unsigned "
    "integers of the stored item size. The suffixes are those of the format's tensors, such as `weight_packed`.",
    "__version__": "The version of schemegen, as text.",
}
_UNDERSCORES: Final = r"\_\_"
TESTING: Final = "schemegen.testing"
_MODELS: Final = {"Scheme": "scheme", "Format": "format", "Policy": "policy", "Rule": "rule"}
_INTRODUCTION: Final = """\
# Python API

```python
import schemegen

plan = schemegen.plan("kimi-k2-int4", "sample:qwen3.6-moe")
print(plan.totals.bytes_in, plan.totals.bytes_out)
```

Everything here is typed and imported when it is first used: `import schemegen` itself costs nothing. What is not on
this page may change with any version."""


def page() -> Iterator[str]:
    """The page."""
    yield from (_INTRODUCTION, "")
    for title, names in GROUPS.items():
        yield from (f"## {title}", "")
        for name in names:
            if name in schemegen.__all__:
                yield from _entry(name, getattr(schemegen, name))
    yield from ("## Errors", "", f"{code(errors())}: see [Errors](errors.md).", "")
    if find_spec(TESTING):
        yield from _testing()


def errors() -> list[str]:
    """The public names that are errors raised on purpose, which have a page of their own."""
    return [name for name in schemegen.__all__ if _is_error(getattr(schemegen, name))]


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, schemegen.SchemegenError)


def _testing() -> Iterator[str]:
    module = import_module(TESTING)
    yield from (f"## {TESTING}", "")
    for paragraph in doc(module).split("\n\n"):
        yield from block("python", paragraph) if paragraph.startswith("from ") else (paragraph, "")
    for name in module.__all__:
        yield from _entry(name, getattr(module, name))


def _entry(name: str, value: Any) -> Iterator[str]:
    yield from (f"### {name.replace('__', _UNDERSCORES)}", "")
    if name in PLAIN:
        yield from (PLAIN[name], "")
    elif inspect.isfunction(value):
        yield from (*block("py", signature(value)), doc(value), "")
    elif name in _MODELS:
        yield from (
            doc(value),
            "",
            f"Its fields: [{value.__name__}](scheme-file.md#{_MODELS[name]}).",
            "",
            *_methods(value),
        )
    elif isinstance(value, enum.EnumMeta):
        yield from (doc(value), "", f"{code(value.__members__)}; see [Roles and parts](roles.md).", "")
    else:
        yield from (doc(value), "", *_attributes(value), *_methods(value))


def _attributes(value: type) -> Iterator[str]:
    found = list(attributes(value))
    if found and (dataclasses.is_dataclass(value) or not issubclass(value, BaseModel)):
        rows = ((f"`{name}`", f"`{type_}`", f"`{default}`" if default else "") for name, type_, default in found)
        yield from (*table(("attribute", "type", "default"), rows), "")


def _methods(value: type) -> Iterator[str]:
    for head, told in members(value):
        yield from (*block("py", head), escaped(told), "")
