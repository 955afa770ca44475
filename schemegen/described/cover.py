"""Rules for the matrices of one role: as few and as plain as tell what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from schemegen.architectures.base import Part, Role
from schemegen.described.fates import Kind
from schemegen.layers import spans_of
from schemegen.rule import Rule

Uses = Mapping[Kind, str | None]
"""What becomes of matrices by kind; None is kept."""

_PLACES: Final = ("part", "layer", "projection")
#: What rules may look at beside the role, the plainest first.
_DIVISIONS: Final[tuple[tuple[str, ...], ...]] = (
    (),
    ("part",),
    ("projection",),
    ("layer",),
    ("part", "projection"),
    ("part", "layer"),
    ("layer", "projection"),
    _PLACES,
)


class Selector(NamedTuple):
    """What a rule says beside its role: the format, and which part, layers and projections."""

    use: str
    part: Part | None = None
    layers: str | None = None
    projections: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """The fields of the rule but for its role, as a person would write them."""
        projections: str | tuple[str, ...] = self.projections[0] if len(self.projections) == 1 else self.projections
        told = {"part": self.part, "layers": self.layers, "projection": projections or None, "use": self.use}
        return {name: value for name, value in told.items() if value is not None}

    def selects(self, kind: Kind) -> bool:
        """Whether a rule that says so, and the kind's role, selects the kind."""
        rule = _rule_of(self, kind.role)
        # Its layers count from the start alone: any depth does.
        is_there = rule.reaches(kind.role, kind.part) and rule.fits_layer(kind.layer, 0)
        return is_there and rule.fits_projection(kind.projection, kind.held)


@lru_cache(maxsize=4096)
def _rule_of(selector: Selector, role: Role) -> Rule:
    return Rule(role=role, **selector.fields())


def cover(uses: Uses) -> tuple[Selector, ...] | None:
    """Selectors that give every kind of one role its format, and reach none that is kept; None where there are none."""
    stacked = any(kind.role is Role.ROUTED_EXPERT for kind in uses)
    # A stack of experts holds several projections: a rule that asks for one alone quantizes none of it.
    plain = sorted(_DIVISIONS, key=lambda places: stacked and "projection" in places)
    found = (_divided(uses, places) for places in plain)
    return next((told for told in found if told is not None and _are_right(told, uses)), None)


def _are_right(selectors: Sequence[Selector], uses: Uses) -> bool:
    """Whether the selectors give every kind its use: one that holds several projections is reached by all of them."""
    return all(next((one.use for one in selectors if one.selects(kind)), None) == use for kind, use in uses.items())


def _divided(uses: Uses, places: Sequence[str]) -> tuple[Selector, ...] | None:
    """Selectors that look at these places alone, or None where those do not tell the kinds apart."""
    cells: dict[tuple[Any, ...], set[str | None]] = {}
    for kind, use in uses.items():
        if use is not None and _is_out_of_reach(kind, places):
            return None
        if "layer" in places and _is_out_of_reach(kind, places):
            continue
        cells.setdefault(tuple(getattr(kind, place) if place in places else None for place in _PLACES), set()).add(use)
    if any(len(found) > 1 for found in cells.values()):
        return None
    return _folded({cell: use for cell, (use,) in cells.items() if use is not None}, uses, "layer" in places)


def _is_out_of_reach(kind: Kind, places: Sequence[str]) -> bool:
    """Whether rules over these places cannot reach a kind: it has none, or layers are counted in another part."""
    if "layer" in places and (kind.layer is None or ("part" not in places and kind.part is not Part.TEXT)):
        return True
    return "projection" in places and kind.projection is None


def _folded(cells: Mapping[tuple[Any, ...], str], uses: Uses, layered: bool) -> tuple[Selector, ...]:
    """Cells that differ in layers become spans, those that then differ in projections lists."""
    layers: dict[tuple[Part | None, str | None, str], list[int | None]] = {}
    for (part, layer, projection), use in cells.items():
        layers.setdefault((part, projection, use), []).append(layer)
    projections: dict[tuple[str, Part | None, str | None], list[str | None]] = {}
    for (part, projection, use), found in layers.items():
        spans = _spans(found, part or Part.TEXT, projection, uses) if layered else None
        projections.setdefault((use, part, spans), []).append(projection)
    return tuple(
        Selector(use, part, spans, tuple(name for name in found if name is not None))
        for (use, part, spans), found in projections.items()
    )


def _spans(chosen: Sequence[int | None], part: Part, projection: str | None, uses: Uses) -> str:
    known = {
        kind.layer
        for kind in uses
        if kind.part is part and projection in (None, kind.projection, *kind.held) and kind.layer is not None
    }
    return spans_of((number for number in chosen if number is not None), known)


def layers_of(uses: Uses, use: str | None) -> tuple[set[int], set[int]]:
    """The text's layers that hold a matrix of this use, and all that hold any."""
    text = {kind: found for kind, found in uses.items() if kind.part is Part.TEXT and kind.layer is not None}
    chosen = {kind.layer for kind, found in text.items() if found == use}
    known = {kind.layer for kind in text}
    return {n for n in chosen if n is not None}, {n for n in known if n is not None}


def merged(selectors: Mapping[Role, tuple[Selector, ...]]) -> list[tuple[tuple[Role, ...], Selector]]:
    """Roles that are selected alike, together, with each of their selectors."""
    alike: dict[tuple[Selector, ...], list[Role]] = {}
    for role, found in selectors.items():
        alike.setdefault(found, []).append(role)
    return list(chain.from_iterable([(tuple(roles), one) for one in found] for found, roles in alike.items()))
