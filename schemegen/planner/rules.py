"""The policy of a run, resolved: every rule with a label that says where it stands, and the format it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemegen.errors import PlanError
from schemegen.policy import Policy, Rule
from schemegen.scheme import Scheme


@dataclass(frozen=True, slots=True)
class ResolvedRule:
    """A rule in the order it is tried: its label ("experts-only[0]"), itself, and its format (None keeps)."""

    label: str
    rule: Rule
    format: str | None

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON values; fields left out of the rule stay out."""
        rule = self.rule.model_dump(mode="json", exclude_unset=True)
        return {"label": self.label, "format": self.format, "rule": rule}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> ResolvedRule:
        """The rule that `to_dict` wrote."""
        return cls(row["label"], Rule.model_validate(row["rule"]), row["format"])


def resolve_rules(
    scheme: Scheme, find_policy: Callable[[str], Policy], in_front: Iterable[Policy] = ()
) -> tuple[ResolvedRule, ...]:
    """All rules of a run in order: those of the policies put in front, then the scheme's own."""
    front = [(policy.name, policy.rules) for policy in in_front]
    return tuple(_resolve(scheme, [*front, *_own_rules(scheme, find_policy)]))


def _own_rules(scheme: Scheme, find_policy: Callable[[str], Policy]) -> Iterator[tuple[str, tuple[Rule, ...]]]:
    for position, entry in enumerate(scheme.policy):
        if isinstance(entry, Rule):
            yield f"{scheme.name}.policy.{position}", (entry,)
        else:
            yield entry, find_policy(entry).rules


def _resolve(scheme: Scheme, policies: Iterable[tuple[str, tuple[Rule, ...]]]) -> Iterator[ResolvedRule]:
    for name, rules in policies:
        for position, rule in enumerate(rules):
            try:
                format_name = scheme.format_name(rule.use, f"{name}[{position}]")
            except ValueError as error:
                raise PlanError(f"scheme {scheme.name} does not go with policy {name}: {error}") from None
            yield ResolvedRule(f"{name}[{position}]", rule, format_name)
