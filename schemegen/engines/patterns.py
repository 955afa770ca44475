"""Names and patterns by which a quantization_config speaks of modules: how they match, and which ones tell apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from schemegen.architectures.base import Part, Role
from schemegen.engines.modules import Module
from schemegen.errors import PlanError

#: vLLM matches from the start of names whose prefixes it has rewritten.
PREFIX: Final = "re:.*"
_NUMBER: Final = re.compile(r"(?<=\\\.)\d+(?=\\\.|$)")
#: What entries are made of. Nothing in it may repeat but `.*` and a whole number between dots, so that an entry from
#: anywhere can be matched in little time.
_SAFE: Final = re.compile(r"(?:\w|\\\.\\d\+(?=\\\.|[$)|]|\Z)|\\[^\w\s]|\.\*|\(|\||\)\??|[\^$])*", re.ASCII)
_MAX_PATTERN: Final = 500
_MAX_REPEATS: Final = 2
_MAX_GROUPS: Final = 4

Candidates = Callable[[Module], Iterable[str]]
"""Patterns for a module without prefix, the most general first."""


def matches(name: str, entries: Iterable[str]) -> bool:
    """Whether an entry hits the name, as all engines see it: `re:` matches from the start, any other text is equal."""
    return any(re.match(entry[3:], name) if entry.startswith("re:") else entry == name for entry in entries)


def is_entry(entry: str) -> bool:
    """Whether an entry is a name, or a pattern that schemegen may write and anybody can match in little time."""
    if not entry.startswith("re:"):
        return True
    # At the end it stops nothing and costs nothing.
    pattern = entry[3:].removesuffix(".*")
    if len(pattern) > _MAX_PATTERN or pattern.count(".*") > _MAX_REPEATS or pattern.count("(") > _MAX_GROUPS:
        return False
    try:
        return _SAFE.fullmatch(pattern) is not None and bool(re.compile(pattern))
    except (re.error, OverflowError, RecursionError):
        return False


def entries_for(wanted: Sequence[Module], others: Iterable[str], candidates: Candidates, role: str) -> list[str]:
    """Few entries, in a fixed order, that hit every wanted module in all its spellings and none of the other names.

    PlanError for a module that no candidate tells apart; `role` says in it what the entries are for.
    """
    unwanted = sorted(set(others))

    @cache
    def is_clear(candidate: str) -> bool:
        entry = [PREFIX + candidate]
        return is_entry(*entry) and not any(matches(name, entry) for name in unwanted)

    proposals = {module.name: _proposal(module, candidates, is_clear, role) for module in wanted}
    order = sorted(wanted, key=lambda module: (_place(module), proposals[module.name]))
    entries = dict.fromkeys(PREFIX + proposals[module.name] for module in order)
    return _without_redundant(list(entries), [name for module in wanted for name in module.names])


def exact(module: Module) -> Iterator[str]:
    """Candidates for the module, or for all experts of its layer: at the same place in every layer, and here alone."""
    return places(module.place, r"(\..*)?$" if module.role is Role.ROUTED_EXPERT else "$")


def places(names: Sequence[str], tail: str) -> Iterator[str]:
    """Candidates for a name in its spellings: with any numbers for its own, and as it is."""
    found = [re.escape(name) for name in names]
    pattern = (found[0] if len(found) == 1 else f"({'|'.join(found)})") + tail
    yield _NUMBER.sub(r"\\d+", pattern)
    yield pattern


def _place(module: Module) -> tuple[int, int]:
    return list(Part).index(module.part), list(Role).index(module.role)


def _proposal(module: Module, candidates: Candidates, is_clear: Callable[[str], bool], role: str) -> str:
    """The first candidate that hits the module in all its spellings and no other name."""
    for candidate in candidates(module):
        if all(matches(name, [PREFIX + candidate]) for name in module.names) and is_clear(candidate):
            return candidate
    raise PlanError(
        f"no {role} tells the {module.format or 'kept'} module {module.name} from the others; "
        "keep more or less, or give both one format"
    )


def _without_redundant(entries: list[str], names: Sequence[str]) -> list[str]:
    """Drop entries whose names others hit as well, those that hit least first."""
    hits = {entry: [name for name in names if matches(name, [entry])] for entry in entries}
    count = Counter(name for found in hits.values() for name in found)
    for entry in sorted(entries, key=lambda entry: (len(hits[entry]), entry)):
        if all(count[name] > 1 for name in hits[entry]):
            entries.remove(entry)
            count.subtract(hits[entry])
    return entries
