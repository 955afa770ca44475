"""The policy of a run, resolved: every rule with a label that says where it stands, and the format it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemegen.errors import PlanError
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Scheme
from schemegen.shadows import Shadow, find_shadows

FindPolicy = Callable[[str], Policy]


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

    @property
    def source(self) -> str:
        """The name of the policy or scheme that brings it."""
        return self.label.rpartition("[")[0]

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> ResolvedRule:
        """The rule that `to_dict` wrote."""
        return cls(row["label"], Rule.model_validate(row["rule"]), row["format"])


class _Placed(NamedTuple):
    """A rule of a scheme with its label, and the position of the entry of the scheme's list that brings it."""

    entry: int
    label: str
    rule: Rule


def resolve_rules(scheme: Scheme, find_policy: FindPolicy, in_front: Iterable[Policy] = ()) -> tuple[ResolvedRule, ...]:
    """All rules of a run in order: those of the policies put in front, then the scheme's own.

    PlanError for a format that the scheme does not have, for two policies of one name, and for an entry of its list
    that earlier ones shadow; the policies put in front may shadow what they like.
    """
    front = [pair for policy in in_front for pair in _labelled(policy)]
    placed = _placed(scheme, find_policy)
    own = [(label, rule) for _, label, rule in placed]
    _check_labels([*front, *own])
    resolved = tuple(_resolved(scheme, label, rule) for label, rule in (*front, *own))
    if faults := list(_shadowed(scheme, placed)):
        raise PlanError("\n".join(f"scheme {scheme.name}: {place}: {fault}" for place, fault in faults))
    return resolved


def shadow_faults(scheme: Scheme, find_policy: FindPolicy) -> list[tuple[str, str]]:
    """The (place, message) of each entry of a scheme's policy that earlier ones shadow, with names resolved.

    Such an entry is a rule of the scheme's own, or a named policy all of whose rules are shadowed. Raises what
    `find_policy` raises.
    """
    return list(_shadowed(scheme, _placed(scheme, find_policy)))


def _placed(scheme: Scheme, find_policy: FindPolicy) -> list[_Placed]:
    return [
        _Placed(position, label, rule)
        for position, entry in enumerate(scheme.policy)
        for label, rule in (
            [(f"{scheme.name}[{position}]", entry)] if isinstance(entry, Rule) else _labelled(find_policy(entry))
        )
    ]


def _shadowed(scheme: Scheme, placed: Sequence[_Placed]) -> Iterator[tuple[str, str]]:
    shadows = {shadow.position: shadow for shadow in find_shadows([rule for _, _, rule in placed])}
    for position, entry in enumerate(scheme.policy):
        members = [index for index, (brought_by, _, _) in enumerate(placed) if brought_by == position]
        if all(index in shadows for index in members):
            name = placed[members[0]].label if isinstance(entry, Rule) else f"policy {entry}"
            told = _together([shadows[index] for index in members]).told([label for _, label, _ in placed])
            yield f"policy.{position}", f"{name} {told}"


def _together(shadows: Sequence[Shadow]) -> Shadow:
    """The shadow over all rules of an entry; what its own rules take of each other, others took before."""
    first = shadows[0].position
    takers = sorted({taker for shadow in shadows for taker in shadow.takers if taker < first})
    return Shadow(first, tuple(takers), any(shadow.late for shadow in shadows))


def _check_labels(labelled: Iterable[tuple[str, Rule]]) -> None:
    """A label says which rule decided, so that two rules may not share one."""
    known: dict[str, Rule] = {}
    for label, rule in labelled:
        if known.setdefault(label, rule) != rule:
            name = label.rpartition("[")[0]
            raise PlanError(f"two policies of this run are called {name} and have other rules; rename one of them")


def _labelled(policy: Policy) -> list[tuple[str, Rule]]:
    return [(f"{policy.name}[{position}]", rule) for position, rule in enumerate(policy.rules)]


def _resolved(scheme: Scheme, label: str, rule: Rule) -> ResolvedRule:
    try:
        return ResolvedRule(label, rule, scheme.format_name(rule.use, label))
    except ValueError as error:
        raise PlanError(f"scheme {scheme.name} does not go with {error}") from None
