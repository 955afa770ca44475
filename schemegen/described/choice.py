"""Chooses a policy: of all that give every kind of matrix what it got, the one that is shortest to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from schemegen.architectures.base import Part, Role, TensorInfo
from schemegen.described.cover import Uses, cover, layers_of, merged
from schemegen.described.fates import Kind
from schemegen.layers import spans_of
from schemegen.policy import Policy
from schemegen.rule import Rule

Entry = str | Rule
_KEEP: Final = "keep"
_DEFAULT: Final = "default"
#: How many named policies may stand before the rules.
_MOST_IN_FRONT: Final = 3
_NAME_COST, _RULE_COST, _ROLE_COST = 1.0, 2.0, 0.4
#: Layers depend on a model's depth, and may fit a small one by chance.
_FIELD_COSTS: Final = {"part": 1.0, "layers": 2.0, "projection": 1.0}
_LAYERED_NAME_COST: Final = 1.8


class Choice:
    """The kinds of matrices of one checkpoint, and what policies make of them."""

    def __init__(
        self,
        uses: Uses,
        infos: Mapping[Kind, TensorInfo],
        depths: Mapping[Part, int],
        policies: Sequence[Policy],
        formats: Sequence[str],
    ) -> None:
        self._uses = uses
        self._infos = infos
        self._depths = depths
        self._policies = {policy.name: policy for policy in policies}
        self._reached: dict[Rule, frozenset[Kind]] = {}
        self._formats = formats

    def best(self) -> tuple[Entry, ...] | None:
        """The shortest policy of all that hold, or None where none of those looked at does."""
        return min((entries for entries in self._proposed() if self._holds(entries)), key=self._cost, default=None)

    def _proposed(self) -> Iterator[tuple[Entry, ...]]:
        keeping = [name for name in self._policies if self._only_keeps(name)]
        for size in range(_MOST_IN_FRONT + 1):
            for front in combinations(keeping, size):
                rest = self._rest(front)
                yield from ((*front, *rules) for rules in self._tails(rest))

    def _tails(self, rest: Uses) -> Iterator[tuple[Entry, ...]]:
        """Policies for what those in front leave open: a named one, rules by role, rules by role and one for all."""
        if len(self._formats) == 1:
            yield from ((name,) for name, policy in self._policies.items() if _hands_out(policy))
        if (rules := _rules(_by_role(rest))) is not None:
            yield tuple(rules)
        yield from (found for star in self._stars(rest) if (found := self._around(star, rest)))

    def _stars(self, rest: Uses) -> Iterator[Rule]:
        """Rules for all roles that are not protected."""
        for use in self._formats:
            chosen, known = layers_of(rest, use)
            yield Rule(use=use, role="*")
            yield Rule(use=use, role="*", part=Part.TEXT)
            if chosen and chosen != known:
                yield Rule(use=use, role="*", layers=spans_of(chosen, known))

    def _around(self, star: Rule, rest: Uses) -> tuple[Entry, ...] | None:
        """Rules for the roles that `star` would get wrong, and then `star`; None where it is right for one at most."""
        reached = self._reach(star)
        wrong = {
            role: uses
            for role, uses in _by_role(rest).items()
            if any(use != (star.use if kind in reached else None) for kind, use in uses.items())
        }
        right = {kind.role for kind in rest if kind in reached} - wrong.keys()
        if len(right) < 2:
            return None
        left = [role for role, uses in wrong.items() if any(kind in reached and not use for kind, use in uses.items())]
        keep = [_rule(tuple(left), {"use": _KEEP})] if left else []
        before = _rules(wrong)
        return None if before is None else (*before, *keep, star)

    def _only_keeps(self, name: str) -> bool:
        """Whether a policy keeps something here, and nothing that was quantized."""
        rules = self._policies[name].rules
        reached = [kind for rule in rules for kind in self._reach(rule)]
        plain = all(rule.use == _KEEP and rule.name is None for rule in rules)
        return plain and bool(reached) and all(self._uses[kind] is None for kind in reached)

    def _rest(self, front: Sequence[str]) -> Uses:
        taken = {kind for name in front for rule in self._policies[name].rules for kind in self._reach(rule)}
        return {kind: use for kind, use in self._uses.items() if kind not in taken}

    def _holds(self, entries: Sequence[Entry]) -> bool:
        """Whether every kind gets what it got."""
        open_kinds = set(self._uses)
        for entry in entries:
            for rule in self._policies[entry].rules if isinstance(entry, str) else (entry,):
                use = None if rule.use == _KEEP else self._formats[0] if rule.use == _DEFAULT else rule.use
                hit = self._reach(rule) & open_kinds
                if any(self._uses[kind] != use for kind in hit):
                    return False
                open_kinds -= hit
        return all(self._uses[kind] is None for kind in open_kinds)

    def _cost(self, entries: Sequence[Entry]) -> float:
        """How much there is to read."""
        return sum(self._name_cost(entry) if isinstance(entry, str) else _rule_cost(entry) for entry in entries)

    def _name_cost(self, name: str) -> float:
        return _LAYERED_NAME_COST if any(rule.layers for rule in self._policies[name].rules) else _NAME_COST

    def _reach(self, rule: Rule) -> frozenset[Kind]:
        """The kinds that a rule selects."""
        if rule not in self._reached:
            found = (kind for kind, info in self._infos.items() if rule.matches(info, self._depths[kind.part]))
            self._reached[rule] = frozenset(found)
        return self._reached[rule]


def _hands_out(policy: Policy) -> bool:
    """Whether a policy quantizes, whatever the scheme calls its format."""
    uses = {rule.use for rule in policy.rules}
    return _DEFAULT in uses and uses <= {_DEFAULT, _KEEP} and all(rule.name is None for rule in policy.rules)


def _by_role(uses: Uses) -> dict[Role, dict[Kind, str | None]]:
    found: dict[Role, dict[Kind, str | None]] = {}
    for kind in sorted(uses, key=lambda kind: list(Role).index(kind.role)):
        found.setdefault(kind.role, {})[kind] = uses[kind]
    return found


def _rules(by_role: Mapping[Role, Uses]) -> list[Rule] | None:
    """Rules that name their roles, those that are selected alike in one; None where some role has none."""
    found = {role: cover(uses) for role, uses in by_role.items()}
    selectors = {role: told for role, told in found.items() if told is not None}
    if len(selectors) < len(found):
        return None
    return [_rule(roles, found.fields()) for roles, found in merged(selectors)]


def _rule(roles: tuple[Role, ...], fields: Mapping[str, Any]) -> Rule:
    return Rule.model_validate({"role": roles[0] if len(roles) == 1 else roles, **fields})


def _rule_cost(rule: Rule) -> float:
    fields = sum(cost for name, cost in _FIELD_COSTS.items() if getattr(rule, name) is not None)
    return _RULE_COST + fields + _ROLE_COST * max(0, len(rule.roles or ()) - 1)
