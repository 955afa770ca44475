"""What is wrong with rules whatever the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schemegen.checking.reading import Fault
from schemegen.engines.declaration import UNQUANTIZED_ROLES
from schemegen.rule import Rule


def role_faults(field: str, rules: Mapping[int, Rule]) -> Iterator[Fault]:
    """Rules, by their positions in a field, that would quantize nothing but what engines build unquantized."""
    for position, rule in rules.items():
        if fault := role_fault(rule):
            yield (field, position, "role"), fault


def role_fault(rule: Rule) -> str | None:
    """Why a rule that quantizes never may, or None."""
    if rule.use == "keep" or not rule.roles or not set(rule.roles) <= UNQUANTIZED_ROLES:
        return None
    roles = " and ".join(dict.fromkeys(rule.roles))
    return f"engines build {roles} unquantized; use keep, or take the rule out"
