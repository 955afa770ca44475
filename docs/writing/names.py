"""reference/api.md and extending.md: every public name of `schemegen` and `schemegen.testing`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from pydantic import BaseModel

import schemegen
from docs.writing.markdown import block, code, doc, escaped, table
from docs.writing.signatures import attributes, members, signature

#: The public names by what they are for; a test holds both together complete. Errors have a page of their own.
USING: Final = {
    "Functions": ("plan", "explain", "apply", "verify", "inspect", "describe"),
    "What they take and return": (
        *("Plan", "PlannedTensor", "Totals", "Explanation"),
        *("Result", "Report", "Inspection", "Description", "Progress"),
    ),
    "Scheme and policy files": (
        *("load_scheme", "load_schemes", "load_policy", "load_policies", "check", "json_schema"),
        *("Scheme", "Format", "Policy", "Rule"),
    ),
    "Version": ("__version__",),
}
EXTENDING: Final = {
    "Hooks": ("hookimpl",),
    "Backends": (
        *("WeightBackend", "Weights", "Buffers", "NonFiniteWeight"),
        *("Backend", "Job", "Needs", "Chunk", "Batch"),
    ),
    "Architectures": ("Architecture", "TensorRule", "ExpertLayout", "Role", "Part", "config_int"),
}
GROUPS: Final = USING | EXTENDING
#: Members that the planner and the runner use, and nobody else needs.
INTERNAL: Final = {
    "Plan": ("units", "layer_of"),
    "PlannedTensor": ("pieces", "from_dict"),
    "Scheme": ("format_name",),
    "Rule": ("roles", "projections", "reaches", "matches"),
    "ExpertLayout": ("shape", "module_names"),
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
_USING: Final = """\
# Python: using schemegen

```python
import schemegen

plan = schemegen.plan("kimi-k2-int4", "sample:qwen3.6-moe")
print(plan.totals.bytes_in, plan.totals.bytes_out)
```

Everything here is typed and imported when it is first used: `import schemegen` itself costs nothing.
[Use it as a library](../how-to/library.md) has a whole script, and [Extending schemegen](extending.md) what plugins
need. What is on neither page may change with any version."""
_EXTENDING: Final = """\
# Python: extending schemegen

What [plugins](../tutorial/first-plugin.md) are made of: [hooks](hooks.md), [backends](../how-to/backend.md),
[architectures](../how-to/architecture.md), and what tests them. Everything here but `schemegen.testing` is a name of
`schemegen`. [Using schemegen](api.md) has the rest of them."""


def using() -> Iterator[str]:
    """The page for whoever calls schemegen."""
    yield from (_USING, "", *_groups(USING))
    yield from ("## Errors", "", f"{code(errors())}: see [Errors](errors.md).", "")


def extending() -> Iterator[str]:
    """The page for whoever writes a plugin."""
    yield from (_EXTENDING, "", *_groups(EXTENDING))
    if find_spec(TESTING):
        yield from _testing()


def _groups(groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for title, names in groups.items():
        yield from (f"## {title}", "")
        for name in names:
            if name in schemegen.__all__:
                yield from _entry(name, getattr(schemegen, name))


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
    for name, head, told in members(value):
        if name not in INTERNAL.get(value.__name__, ()):
            yield from (*block("py", head), escaped(told), "")
