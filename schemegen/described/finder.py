"""Finds the group that a stored module belongs to: one that has it as a target, and stores what is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from schemegen.architectures.base import Architecture
from schemegen.described.groups import Group
from schemegen.described.naming import shown
from schemegen.described.stored import Layout, Stored, misfit
from schemegen.engines import LINEAR, first_expert, matches, spellings
from schemegen.errors import CheckpointError

_CLASS: Final = re.compile(r"[A-Z]\w*")


class Finder:
    """The groups of one config. What was found for a name or a layout is kept: there are tens of thousands."""

    def __init__(self, groups: Sequence[Group], architecture: Architecture) -> None:
        self._groups = groups
        self._architecture = architecture
        self._asked: dict[str, list[Group]] = {}
        self._fits: set[tuple[str, Layout]] = set()

    def group_of(self, stored: Stored) -> Group:
        """The first group that has the module, by name before class, and fits.

        Engines ask for the first expert on behalf of all; where that does not fit, an expert's own name is tried.
        CheckpointError where no group has the module, or none of those that have it fits.
        """
        faults: dict[str, None] = {}
        for name in dict.fromkeys((first_expert(stored.name), stored.name)):
            for group in self._candidates(name):
                fault = self._misfit(stored, group)
                if fault is None:
                    return group
                faults[f"{shown(group.name)}: {fault}"] = None
        told = "; ".join(faults) or "no group of config.json has it as a target"
        raise CheckpointError(
            f"module {shown(stored.name)} is stored quantized, but not as config.json says: {told}; "
            "mend the config or download the model again"
        )

    def names_of(self, module: str) -> tuple[str, ...]:
        """The module in every spelling, the layer that engines fuse it into, and the container of experts."""
        return tuple(_names(module, self._architecture))

    def taker_of(self, names: Sequence[str]) -> Group | None:
        """The group that engines take a linear layer of these names for, whatever is stored of it."""
        linear = (group for group in self._groups if LINEAR in group.targets)
        return next(iter(self._named(names)), None) or next(linear, None)

    def _named(self, names: Sequence[str]) -> list[Group]:
        return [group for group in self._groups if any(matches(name, group.targets) for name in names)]

    def _misfit(self, stored: Stored, group: Group) -> str | None:
        key = (group.name, stored.layout)
        if key in self._fits:
            return None
        fault = misfit(stored, group.format)
        if fault is None:
            self._fits.add(key)
        return fault

    def _candidates(self, module: str) -> list[Group]:
        if module not in self._asked:
            self._asked[module] = [*self._named(self.names_of(module)), *_by_class(self._groups)]
        return self._asked[module]


def _by_class(groups: Sequence[Group]) -> list[Group]:
    """Groups for whole classes, those of linear layers first: what class a module has, its name does not tell."""
    found = [group for group in groups if any(_CLASS.fullmatch(target) for target in group.targets)]
    return sorted(found, key=lambda group: LINEAR not in group.targets)


def _names(module: str, architecture: Architecture) -> Iterator[str]:
    parent, _, last = module.rpartition(".")
    fused = [name for name, members in architecture.fusions.items() if last in members]
    experts, mark, _ = module.rpartition(".experts.")
    own = [module, *(f"{parent}.{name}" for name in fused), *([f"{experts}.experts"] if mark else [])]
    for name in own:
        yield from spellings(name, architecture.renames)
