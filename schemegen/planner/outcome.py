"""What the rules came to in this model: rules and formats that reach nothing, what was kept against a scheme's aim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from schemegen.architectures.base import Part, Role, TensorInfo
from schemegen.errors import PlanError
from schemegen.layers import layer_spans
from schemegen.planner.decide import KEPT_BY_DEFAULT, Decision, Depths, selects
from schemegen.planner.rules import ResolvedRule
from schemegen.rule import held_by
from schemegen.scheme import Scheme
from schemegen.shadows import listed


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decisions over a model's tensors under the rules of a run, and the number of layers in each part."""

    scheme: Scheme
    rules: Sequence[ResolvedRule]
    decisions: Sequence[Decision]
    depths: Depths

    def check_something(self) -> None:
        """PlanError where nothing is quantized."""
        if all(decision.format is None for decision in self.decisions):
            raise PlanError(f"scheme {self.scheme.name} quantizes nothing in this model; {self._why_nothing()}")

    def check_aim(self) -> None:
        """PlanError where no routed expert is quantized although rules that quantize name them."""
        name = self.scheme.name
        experts = [decision for decision in self.decisions if decision.info.role is Role.ROUTED_EXPERT]
        naming = [rule for rule in self.rules if _names_experts(rule, {expert.info.part for expert in experts})]
        if naming and all(expert.format is None for expert in experts):
            named = listed([rule.label for rule in naming])
            why = self._why_kept(naming, experts)
            raise PlanError(
                f"scheme {name} leaves all routed experts as shipped, though {named} would quantize some; "
                f"{why}, or take a scheme that names no routed experts"
            )

    def notes(self) -> Iterator[str]:
        """Rules that decide nothing or less than they seem to, with the reason, and formats that nothing gets."""
        deciding = {decision.rule for decision in self.decisions}
        for resolved in self.rules:
            if resolved.label not in deciding:
                yield f"rule {resolved.label} {self._why_idle(resolved)}"
            elif resolved.format is None:
                yield from self._too_late(resolved)
            yield from self._named_in_part(resolved)
        used = {decision.format for decision in self.decisions}
        yield from (f"no tensor of this model gets format {name}" for name in self.scheme.formats if name not in used)

    def _selected(self, rules: Collection[ResolvedRule], decisions: Iterable[Decision]) -> list[Decision]:
        """The decisions on tensors that any of the rules selects, whichever rule decided."""
        return [
            decision
            for decision in decisions
            if any(selects(rule, decision.header, decision.info, self.depths[decision.info.part]) for rule in rules)
        ]

    def _why_idle(self, resolved: ResolvedRule) -> str:
        selected = self._selected([resolved], self.decisions)
        if not selected:
            return f"matches no tensor of this model{self._out_of_range(resolved) or self._other_projections(resolved)}"
        takers = _deciding(selected)
        verb = "takes" if len(takers) == 1 else "take"
        return f"decides no tensor of this model: {listed(takers)} {verb} {_all(selected)} that it matches first"

    def _too_late(self, keeping: ResolvedRule) -> Iterator[str]:
        """What another policy quantizes before a policy that would keep it is asked: its order is easily mistaken."""
        if keeping.source == self.scheme.name:
            return
        others = {rule.label for rule in self.rules if rule.source != keeping.source and rule.format is not None}
        taken = self._selected([keeping], [decision for decision in self.decisions if decision.rule in others])
        if taken:
            takers = _deciding(taken)
            verb, tensors = "quantizes" if len(takers) == 1 else "quantize", "tensor" if len(taken) == 1 else "tensors"
            what = f"{len(taken):,} {tensors} that {listed(takers)} {verb}"
            yield f"rule {keeping.label} would keep {what}; put it in front"

    def _out_of_range(self, resolved: ResolvedRule) -> str:
        layers, part = resolved.rule.layers, resolved.rule.part or Part.TEXT
        depth = self.depths.get(part)
        if layers is None or depth is None:
            return ""
        if any(max(first, 0) <= min(last, depth - 1) for first, last in layer_spans(layers, depth)):
            return ""
        return f': layers "{layers}" names none of the {depth} in part {part}'

    def _beside_projection(self, resolved: ResolvedRule) -> list[TensorInfo]:
        """What a rule would select if it named no projection."""
        wide = replace(resolved, rule=resolved.rule.model_copy(update={"projection": None}))
        return [decision.info for decision in self._selected([wide], self.decisions)]

    def _other_projections(self, resolved: ResolvedRule) -> str:
        named = resolved.rule.projections
        there = {name for info in self._beside_projection(resolved) for name in held_by(info)} if named else ()
        if not named or not there or set(named) <= set(there):
            return ""
        near = [found for name in named for found in get_close_matches(name, sorted(there), n=1)]
        hint = f"; did you mean {' and '.join(dict.fromkeys(near))}?" if near else ""
        return f": there the projections are {', '.join(sorted(there))}{hint}"

    def _named_in_part(self, resolved: ResolvedRule) -> Iterator[str]:
        """What holds a projection that a rule names, with others that it does not: nothing quantizes a part of it."""
        rule, named = resolved.rule, resolved.rule.projections or ()
        if resolved.format is None or not named:
            return
        held = Counter(
            held
            for info in self._beside_projection(resolved)
            if not rule.takes(held := held_by(info)) and info.projection not in named and {*held} & {*named}
        )
        for members, count in held.items():
            tensors, left = ("tensor", "is") if count == 1 else ("tensors", "are")
            told = f"{count:,} {tensors} that hold{'s' if count == 1 else ''} {listed(members)} in one"
            missing = listed([member for member in members if member not in named])
            yield f"rule {resolved.label} does not name {missing}: {told} {left} left to the rules after it"

    def _why_nothing(self) -> str:
        wanting = [rule for rule in self.rules if rule.format is not None]
        if not self._selected(wanting, self.decisions):
            return "its rules match no tensor that may be quantized; `schemegen inspect` lists a model's roles"
        return self._why_kept(wanting, self.decisions)

    def _why_kept(self, wanting: Sequence[ResolvedRule], decisions: Iterable[Decision]) -> str:
        """Which rules kept what others would have quantized, and what to do: "a[0] keeps them; leave it out"."""
        selected = self._selected(wanting, decisions)
        if not selected:
            return "its layers, projection or name match none of them: correct the rule"
        takers = _deciding(selected)
        verb, them = ("keeps", "it") if len(takers) == 1 else ("keep", "one of them")
        wanted = listed([rule.label for rule in wanting if self._selected([rule], selected)])
        return f"{listed(takers)} {verb} {_all(selected)} that {wanted} would quantize: leave {them} out"


def _names_experts(resolved: ResolvedRule, parts: Iterable[Part]) -> bool:
    """Whether a rule that quantizes names routed experts outright, in one of the parts that have some."""
    rule = resolved.rule
    named = rule.roles is not None and Role.ROUTED_EXPERT in rule.roles
    return named and resolved.format is not None and any(rule.part in (None, part) for part in parts)


def _all(decisions: Sequence[Decision]) -> str:
    return "the one tensor" if len(decisions) == 1 else f"all {len(decisions):,} tensors"


def _deciding(decisions: Iterable[Decision]) -> list[str]:
    """The labels of the rules that decided, each once."""
    return list(dict.fromkeys(decision.rule for decision in decisions if decision.rule != KEPT_BY_DEFAULT))
