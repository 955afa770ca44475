"""Rules of one role: plain ones first, and none that reaches what is kept."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from schemegen.architectures.base import Part, Role
from schemegen.described.cover import Selector, cover, merged
from schemegen.described.fates import Kind

TEXT, MTP, VISION = Part.TEXT, Part.MTP, Part.VISION


def attention(uses: Mapping[tuple[Part, int | None, str | None], str | None]) -> tuple[Selector, ...] | None:
    """The selectors of attention, by part, layer and projection."""
    return cover({Kind(Role.ATTENTION, *place): use for place, use in uses.items()})


@pytest.mark.parametrize(
    ("uses", "told"),
    [
        ({(TEXT, 0, "q"): "a", (MTP, 0, "q"): "a"}, (Selector("a"),)),
        ({(TEXT, 0, "q"): None, (MTP, 0, "q"): None}, ()),
        ({(TEXT, 0, "q"): "a", (VISION, 0, "qkv"): None}, (Selector("a", TEXT),)),
        ({(TEXT, 0, "q"): "a", (TEXT, 0, "o"): None, (TEXT, 4, "q"): "a"}, (Selector("a", projections=("q",)),)),
        ({(TEXT, 0, "q"): "a", (TEXT, 4, "q"): "a", (TEXT, 8, "q"): None}, (Selector("a", layers="0-4"),)),
        ({(TEXT, 0, "q"): "a", (TEXT, 4, "q"): "b"}, (Selector("a", layers="0"), Selector("b", layers="4"))),
        ({(MTP, 0, "q"): "a", (MTP, 1, "q"): None, (TEXT, 0, "q"): None}, (Selector("a", MTP, "0"),)),
        (
            {(TEXT, 0, "q"): "a", (TEXT, 0, "k"): "a", (TEXT, 0, "o"): None, (TEXT, 1, "q"): None},
            (Selector("a", layers="0", projections=("q", "k")),),
        ),
        ({(TEXT, 0, "q"): "a", (TEXT, 1, "q"): None, (TEXT, None, None): "a"}, None),
    ],
    ids=["all", "none", "part", "projection", "layers", "two", "mtp", "cells", "untold"],
)
def test_the_plainest_fields_that_tell_apart(
    uses: Mapping[tuple[Part, int | None, str | None], str | None], told: tuple[Selector, ...] | None
) -> None:
    found = attention(uses)
    assert (None if found is None else set(found)) == (None if told is None else set(told))


def test_experts_are_told_by_layers_before_projections() -> None:
    kinds = {(layer, name): "a" if layer else None for layer in (0, 1) for name in ("gate", "down")}
    uses = {Kind(Role.ROUTED_EXPERT, TEXT, layer, name): use for (layer, name), use in kinds.items()}
    assert cover(uses) == (Selector("a", layers="1"),)


def test_roles_that_are_selected_alike_share_a_rule() -> None:
    one, two = (Selector("a"),), (Selector("a", layers="0"), Selector("b", layers="1"))
    found = merged({Role.MLP: one, Role.ATTENTION: two, Role.LM_HEAD: one, Role.NORM: ()})
    assert found == [
        ((Role.MLP, Role.LM_HEAD), one[0]),
        ((Role.ATTENTION,), two[0]),
        ((Role.ATTENTION,), two[1]),
    ]
