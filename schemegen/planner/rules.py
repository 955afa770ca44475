"""The policy of a run, resolved: every rule with a label that says where it stands, and the format it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemegen.errors import PlanError
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Scheme
from schemegen.shadows import Shadow, find_shadows, own_shadow_faults

FindPolicy = Callable[[str], Policy]


@dataclass(frozen=True, slots=True)
class ResolvedRule:
    """A rule in the order it is tried: its label ("experts-only[0]"), itself, and its format (None keeps).

    `source` is the name of the policy or scheme that brings it, which the label begins with.
    """

    label: str
    rule: Rule
    format: str | None
    source: str

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON values; fields left out of the rule stay out."""
        rule = self.rule.model_dump(mode="json", exclude_unset=True)
        return {"label": self.label, "format": self.format, "rule": rule}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> ResolvedRule:
        """The rule that `to_dict` wrote; what brings it stands in the label alone, as in outputs of every version."""
        label = row["label"]
        return cls(label, Rule.model_validate(row["rule"]), row["format"], label.rpartition("[")[0])


class _Brought(NamedTuple):
    """A rule, the policy or scheme that brings it, and its position there."""

    source: str
    position: int
    rule: Rule

    @property
    def label(self) -> str:
        return f"{self.source}[{self.position}]"


class _Placed(NamedTuple):
    """A rule of a scheme, and the position of the entry of the scheme's list that brings it."""

    entry: int
    brought: _Brought


def resolve_rules(scheme: Scheme, find_policy: FindPolicy, in_front: Iterable[Policy] = ()) -> tuple[ResolvedRule, ...]:
    """All rules of a run in order: those of the policies put in front, then the scheme's own.

    PlanError for a format that the scheme does not have, for two policies of one name, for an entry of its list that
    earlier ones shadow, and for such a rule of a policy; the policies put in front may shadow what they like elsewhere.
    """
    policies = [*in_front]
    front = [brought for policy in policies for brought in _rules_of(policy)]
    placed = _placed(scheme, find_policy)
    rules = [*front, *(brought for _, brought in placed)]
    if taken := next(iter(_label_faults(scheme, rules)), None):
        raise PlanError(taken)
    resolved = tuple(_resolved(scheme, brought) for brought in rules)
    named = [find_policy(entry) for entry in scheme.policy if isinstance(entry, str)]
    faults = [f"scheme {scheme.name}: {place}: {fault}" for place, fault in _shadowed(scheme, placed)]
    if not faults:
        faults = [*_own_faults("scheme", scheme)]
        faults += [fault for policy in (*policies, *named) for fault in _own_faults("policy", policy)]
    if faults:
        raise PlanError("\n".join(dict.fromkeys(faults)))
    return resolved


def _own_faults(kind: str, brought: Scheme | Policy) -> Iterator[str]:
    """What is wrong with a scheme or policy that no file brings: files are told so when they are read."""
    for (field, position), fault in own_shadow_faults(brought):
        yield f"{kind} {brought.name}: {field}.{position}: {fault}"


def shadow_faults(scheme: Scheme, find_policy: FindPolicy) -> list[tuple[str, str]]:
    """The (place, message) of each entry of a scheme's policy that earlier ones shadow, with names resolved.

    Such an entry is a rule of the scheme's own, or a named policy all of whose rules are shadowed. Raises what
    `find_policy` raises.
    """
    return list(_shadowed(scheme, _placed(scheme, find_policy)))


def _placed(scheme: Scheme, find_policy: FindPolicy) -> list[_Placed]:
    return [
        _Placed(position, brought)
        for position, entry in enumerate(scheme.policy)
        for brought in (
            [_Brought(scheme.name, position, entry)] if isinstance(entry, Rule) else _rules_of(find_policy(entry))
        )
    ]


def _shadowed(scheme: Scheme, placed: Sequence[_Placed]) -> Iterator[tuple[str, str]]:
    shadows = {shadow.position: shadow for shadow in find_shadows([brought.rule for _, brought in placed])}
    for position, entry in enumerate(scheme.policy):
        members = [index for index, (brought_by, _) in enumerate(placed) if brought_by == position]
        if all(index in shadows for index in members):
            name = placed[members[0]].brought.label if isinstance(entry, Rule) else f"policy {entry}"
            told = _together([shadows[index] for index in members]).told([brought.label for _, brought in placed])
            yield f"policy.{position}", f"{name} {told}"


def _together(shadows: Sequence[Shadow]) -> Shadow:
    """The shadow over all rules of an entry; what its own rules take of each other, others took before."""
    first = shadows[0].position
    takers = sorted({taker for shadow in shadows for taker in shadow.takers if taker < first})
    return Shadow(first, tuple(takers), any(shadow.late for shadow in shadows))


def _label_faults(scheme: Scheme, rules: Iterable[_Brought]) -> Iterator[str]:
    """A label says which rule decided, so that two rules may not share one."""
    known: dict[str, Rule] = {}
    taken = {rule.source for rule in rules if known.setdefault(rule.label, rule.rule) != rule.rule}
    for name in sorted(taken):
        who = "the scheme and a policy" if name == scheme.name else "two policies"
        yield f"{who} of this run are called {name} and have other rules; rename one of them"


def _rules_of(policy: Policy) -> list[_Brought]:
    return [_Brought(policy.name, position, rule) for position, rule in enumerate(policy.rules)]


def _resolved(scheme: Scheme, brought: _Brought) -> ResolvedRule:
    try:
        format = scheme.format_name(brought.rule.use, brought.label)
        return ResolvedRule(brought.label, brought.rule, format, brought.source)
    except ValueError as error:
        raise PlanError(f"scheme {scheme.name} does not go with {error}") from None
