"""Rules that earlier ones shadow: those of a list that never decide a matrix, whatever the model.

A rule is what it selects of each cell, a role in a part: layers, projections and names. Layers are compared at every
number of layers, projections one by one, names by their text. What may not be shadowed is never said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

from schemegen.architectures.base import Part, Role
from schemegen.layers import layer_ends, layer_spans
from schemegen.policy import Policy
from schemegen.rule import FUSED, Rule, backward_span, is_protected_place
from schemegen.scheme import Scheme

Cell = tuple[Role, Part]
_RULES: Final = ((Scheme, "policy"), (Policy, "rules"))
_CELLS: Final = tuple(product(Role, Part))
_MOST_MEETINGS: Final = 2_500
"""Pairs of a number from the start and one from the end; of rules that have more nothing is claimed."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A rule that never decides, by its position, and the positions of the earlier ones that take all it selects.

    Without any of those it selects nothing by itself.
    `late` is a rule that keeps nothing: what is left to it would be kept without it.
    """

    position: int
    takers: tuple[int, ...]
    late: bool = False

    def told(self, labels: Sequence[str]) -> str:
        """What is wrong and what to do, with the labels of the rules."""
        if not self.takers:
            return "selects nothing: what it could reach is quantized only by a rule that names the role; name it"
        takers = listed([labels[taker] for taker in self.takers])
        verb = "takes" if len(self.takers) == 1 else "take"
        if self.late:
            return f"keeps nothing: {takers} {verb} first what it should keep; move it up or take it out"
        return f"never decides: {takers} {verb} all that it selects; move it up or take it out"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def own_shadow_faults(model: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The place and message of each rule of a scheme or policy that is in vain by itself; nothing of anything else.

    Such have layers that run backwards, or are shadowed by others of their own.

    For whoever writes a file: what an output was made with stays as it was. What the policies that a scheme names take
    is not known here.
    """
    field, entries = next(((name, getattr(model, name)) for kind, name in _RULES if isinstance(model, kind)), ("", ()))
    own = {position: entry for position, entry in enumerate(entries) if isinstance(entry, Rule)}
    positions = list(own)
    backwards = {position: span for position, rule in own.items() if (span := backward_span(rule))}
    for position, span in backwards.items():
        yield (field, position), f"layers {span} run backwards and name none; write the lower number first"
    for index, fault in shadow_faults(list(own.values()), [f"{field}.{position}" for position in positions]):
        if positions[index] not in backwards:
            yield (field, positions[index]), fault


def shadow_faults(rules: Sequence[Rule], labels: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The position of each rule that never decides, and a message that speaks of the rules by their labels."""
    for shadow in find_shadows(rules):
        yield shadow.position, shadow.told(labels)


def find_shadows(rules: Sequence[Rule]) -> list[Shadow]:
    """Every rule that never decides, in order."""
    found = (_never_decides(rules, position) or _keeps_late(rules, position) for position in range(len(rules)))
    return [shadow for shadow in found if shadow is not None]


def _never_decides(rules: Sequence[Rule], position: int) -> Shadow | None:
    cells = _cells(rules[position])
    if not all(_is_taken(rules[position], cell, rules[:position]) for cell in cells):
        return None
    return Shadow(position, _fewest(rules, position, cells))


def _keeps_late(rules: Sequence[Rule], position: int) -> Shadow | None:
    """A rule that keeps what quantizing rules took, but for what nobody would have quantized.

    Other than `{use: keep}` alone, which says that the list ends here.
    """
    rule, rest = rules[position], rules[position + 1 :]
    exposed = [cell for cell in _cells(rule) if not is_protected_place(*cell)]
    if rule.use != "keep" or rule.model_dump(exclude_defaults=True).keys() == {"use"} or not exposed:
        return None
    if not all(_is_taken(rule, cell, rules[:position]) for cell in exposed):
        return None
    left = [cell for cell in _cells(rule) if is_protected_place(*cell)]
    takers = _fewest(rules, position, exposed)
    is_kept = all(rules[taker].use == "keep" for taker in takers)
    if is_kept or any(later.use != "keep" and later.reaches(*cell) for later in rest for cell in left):
        return None
    return Shadow(position, takers, late=True)


def _cells(rule: Rule) -> list[Cell]:
    return [cell for cell in _CELLS if rule.reaches(*cell)]


def _fewest(rules: Sequence[Rule], position: int, cells: Sequence[Cell]) -> tuple[int, ...]:
    """Of the earlier rules, which together take all of the cells, some without which they would not."""
    kept = [taker for taker in range(position) if any(rules[taker].reaches(*cell) for cell in cells)]
    for taker in reversed(kept):
        fewer = [rules[other] for other in kept if other != taker]
        if all(_is_taken(rules[position], cell, fewer) for cell in cells):
            kept.remove(taker)
    return tuple(kept)


def _is_taken(rule: Rule, cell: Cell, earlier: Iterable[Rule]) -> bool:
    """Whether the earlier rules together take every matrix of the cell that the rule selects."""
    there = [other for other in earlier if other.name in (None, rule.name) and other.reaches(*cell)]
    if cell[0] is Role.ROUTED_EXPERT:
        there = [other for other in there if _takes_stacks(other, rule)]
    return all(_are_layers_taken(rule, _taking(there, projection)) for projection in _asked(rule))


def _takes_stacks(earlier: Rule, rule: Rule) -> bool:
    """Whether a rule that takes a projection takes it from the rule in stacks of several, too."""
    if earlier.projections is None or earlier.use == "keep":
        return True
    return rule.use != "keep" and set(rule.projections or ()) <= set(earlier.projections)


def _asked(rule: Rule) -> list[str | None]:
    """The projections that a rule selects, fused ones too; None is one that no rule names."""
    if rule.projections is None:
        return [None]
    return [*rule.projections, *(fused for fused, members in FUSED.items() if rule.takes(members))]


def _taking(rules: Iterable[Rule], projection: str | None) -> list[Rule]:
    """The rules that select the projection."""
    held = FUSED.get(projection or "", ())
    return [rule for rule in rules if projection in (rule.projections or (projection,)) or rule.takes(held)]


def _are_layers_taken(rule: Rule, earlier: Sequence[Rule]) -> bool:
    if any(other.layers is None for other in earlier):
        return True
    # Without `layers` a rule selects what is in no layer, too.
    together = ",".join(other.layers for other in earlier if other.layers is not None)
    return rule.layers is not None and together != "" and _holds(together, rule.layers)


@lru_cache(maxsize=256)
def _holds(layers: str, wanted: str) -> bool:
    """Whether spans hold all that others name, whatever the number of layers.

    The order of two ends changes only where a number from the start and one from the end meet or lie side by side, so
    that a few numbers of layers stand for all.
    """
    numbers = {number for span in layer_ends(f"{layers},{wanted}") for number in span}
    from_start = {0, *(number for number in numbers if number >= 0)}
    from_end = {1, *(-number for number in numbers if number < 0)}
    if len(from_start) * len(from_end) > _MOST_MEETINGS:
        return False
    depths = {start + end + step for start in from_start for end in from_end for step in (-1, 0, 1, 2)} - {0}
    return all(_covers(layer_spans(layers, depth), layer_spans(wanted, depth), depth) for depth in depths)


def _covers(spans: Iterable[tuple[int, int]], wanted: Iterable[tuple[int, int]], depth: int) -> bool:
    """Whether the spans together hold every layer of the wanted ones that is there."""
    in_order = sorted(spans)
    for first, last in wanted:
        missing = max(first, 0)
        for low, high in in_order:
            if low <= missing:
                missing = max(missing, high + 1)
        if missing <= min(last, depth - 1):
            return False
    return True
