"""reference/architectures.md: the built-in architectures, pattern by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from docs.writing.markdown import code, sentence, table
from schemegen.architectures.base import Architecture, TensorRule
from schemegen.architectures.known import ARCHITECTURES

_INTRODUCTION: Final = """\
# Built-in architectures

An architecture answers to `model_type`s of `config.json` and knows every tensor name of its models: a name that no
pattern matches in full is an error, and never a guess. `schemegen show NAME` prints the patterns as the
regular expressions that they are; here `{layer}` and `{expert}` stand for numbers."""
_GROUP: Final = re.compile(r"\(\?P<(\w+)>([^()]*)\)")


def page() -> Iterator[str]:
    """The page."""
    yield from (_INTRODUCTION, "")
    for architecture in ARCHITECTURES:
        yield from _section(architecture)


def _section(architecture: Architecture) -> Iterator[str]:
    yield from (f"## {architecture.name}", "", sentence(architecture.summary), "")
    yield f"- `model_type`: {code(architecture.model_types)}"
    if architecture.reference:
        yield f"- reference: <{architecture.reference}>"
    yield "- layers that engines build from several matrices, which take one format:"
    for fused, members in architecture.fusions.items():
        yield f"    - `{fused}` from {code(members)}"
    yield from ("", *table(("role", "part", "projection", "tensor name"), map(_row, architecture.rules)), "")


def _row(rule: TensorRule) -> tuple[str, str, str, str]:
    return f"`{rule.role}`", f"`{rule.part}`", _projection(rule), f"`{_readable(rule.pattern)}`"


def _readable(pattern: str) -> str:
    """A pattern with numbers as `{layer}` and `{expert}`, other named groups bare, and dots as dots."""
    plain = _GROUP.sub(lambda found: f"{{{found[1]}}}" if found[2] == r"\d+" else f"({found[2]})", pattern)
    return plain.replace(r"\.", ".")


def _projection(rule: TensorRule) -> str:
    if rule.experts:
        return f"stack of {code(rule.experts.projections)}"
    if rule.projections:
        return code(dict.fromkeys(rule.projections.values()))
    if "(?P<projection>" in rule.pattern:
        return "as named"
    return f"`{rule.projection}`" if rule.projection else ""
