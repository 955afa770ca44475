"""The policy of a run, resolved: every rule with a label that says where it stands, and the format it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemegen.errors import PlanError
from schemegen.policy import Policy
from schemegen.rule import Rule
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
    labelled = [pair for policy in in_front for pair in _labelled(policy)]
    for position, entry in enumerate(scheme.policy):
        if isinstance(entry, Rule):
            labelled.append((f"{scheme.name}[{position}]", entry))
        else:
            labelled.extend(_labelled(find_policy(entry)))
    return tuple(_resolved(scheme, label, rule) for label, rule in labelled)


def _labelled(policy: Policy) -> Iterator[tuple[str, Rule]]:
    for position, rule in enumerate(policy.rules):
        yield f"{policy.name}[{position}]", rule


def _resolved(scheme: Scheme, label: str, rule: Rule) -> ResolvedRule:
    try:
        return ResolvedRule(label, rule, scheme.format_name(rule.use, label))
    except ValueError as error:
        raise PlanError(f"scheme {scheme.name} does not go with {error}") from None
