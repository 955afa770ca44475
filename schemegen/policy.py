"""Policies: ordered lists of rules; the first rule that matches a tensor decides."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from schemegen.rule import Line, Name, Rule, StrictModel, as_tuple


class Policy(StrictModel):
    """A named, ordered list of rules."""

    schema_version: Literal[1]
    name: Name
    summary: Line
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]

    @field_validator("rules", mode="before")
    @classmethod
    def _read_rules(cls, value: Any) -> Any:
        return as_tuple(value)


PolicyEntry = Annotated[
    Annotated[Name, Tag("name")] | Annotated[Rule, Tag("rule")],
    Discriminator(lambda entry: "name" if isinstance(entry, str) else "rule"),
]


def as_entries(value: Any) -> Any:
    """A scheme's `policy` as a tuple: one name, a list of rules, or a list mixing names and rules."""
    return (value,) if isinstance(value, str) else as_tuple(value)
