"""Policies: ordered lists of rules; the first rule that matches a tensor decides."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, field_validator

from schemegen.rule import Line, Name, OwnName, Rule, SchemaVersion, StrictModel, as_tuple


class Policy(StrictModel):
    """A named, ordered list of rules."""

    schema_version: SchemaVersion = Field(description="The version of this file format.")
    name: OwnName = Field(description="What a person types to get the policy.")
    summary: Line = Field(description="One line for lists.")
    rules: tuple[Rule, ...] = Field(min_length=1, description="In order: the first rule that matches decides.")

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
