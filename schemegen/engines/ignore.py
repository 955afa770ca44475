"""The `ignore` list: few regexes that hit every kept module in every engine's spelling, and no quantized one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from schemegen.architectures.base import Part, Role
from schemegen.engines.modules import Module, spellings
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


def ignore_list(modules: Sequence[Module], part_ignores: Mapping[Part, str]) -> list[str]:
    """The entries for the kept modules, in a fixed order; PlanError for one that cannot be told from the quantized."""
    quantized = {name for module in modules if module.format is not None for name in spellings(module.name)}
    kept = [module for module in modules if module.format is None]

    @cache
    def is_clear(candidate: str) -> bool:
        return not any(matches(name, [PREFIX + candidate]) for name in quantized)

    proposals = {module.name: _proposal(module, part_ignores, is_clear) for module in kept}
    order = sorted(kept, key=lambda module: (_place(module), proposals[module.name]))
    entries = dict.fromkeys(PREFIX + proposals[module.name] for module in order)
    return _without_redundant(list(entries), [name for module in kept for name in spellings(module.name)])


def matches(name: str, entries: Iterable[str]) -> bool:
    """Whether an entry hits the name, as all engines see it: `re:` matches from the start, any other text is equal."""
    return any(re.match(entry[3:], name) if entry.startswith("re:") else entry == name for entry in entries)


def is_ignore_list(value: object) -> bool:
    """Whether a value read from a file is a list of names and of patterns as schemegen writes them."""
    return isinstance(value, list) and all(isinstance(entry, str) and is_entry(entry) for entry in value)


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


def check_ignore(modules: Iterable[Module], entries: Collection[str]) -> None:
    """PlanError unless every kept module is hit and no quantized one, in every spelling, by entries as they may be."""
    strange = [entry for entry in entries if not is_entry(entry)]
    if strange:
        raise PlanError(f"{strange[0]!r} is no pattern for ignore: write names, .*, \\d+ between dots and few groups")
    for module in modules:
        for name in spellings(module.name):
            if matches(name, entries) == (module.format is None):
                continue
            kept = module.format is None
            fault = "is kept, but no entry of ignore matches it" if kept else "is quantized, but ignore matches it"
            raise PlanError(f"module {name} {fault}; engines would misread the checkpoint: choose another policy")


def _place(module: Module) -> tuple[int, int]:
    return list(Part).index(module.part), list(Role).index(module.role)


def _proposal(module: Module, part_ignores: Mapping[Part, str], is_clear: Callable[[str], bool]) -> str:
    """The first candidate that hits the module in all its spellings and nothing quantized."""
    names = spellings(module.name)
    for candidate in _candidates(module, part_ignores):
        if all(matches(name, [PREFIX + candidate]) for name in names) and is_clear(candidate):
            return candidate
    raise PlanError(f"no ignore entry tells the kept module {module.name} from the quantized ones; keep more or less")


def _candidates(module: Module, part_ignores: Mapping[Part, str]) -> Iterator[str]:
    """From the most general: the part, the kind, the same place in every layer, the module alone."""
    if module.part in part_ignores:
        yield part_ignores[module.part]
    if module.ignore is not None:
        yield module.ignore
    exact = _exact(module)
    yield _NUMBER.sub(r"\\d+", exact)
    yield exact


def _exact(module: Module) -> str:
    """A regex for the module, or for all experts of its layer, in every spelling."""
    tail = r"(\..*)?$" if module.role is Role.ROUTED_EXPERT else "$"
    name = module.scope if module.role is Role.ROUTED_EXPERT else module.name
    found = [re.escape(spelling) for spelling in spellings(name)]
    return (found[0] if len(found) == 1 else f"({'|'.join(found)})") + tail


def _without_redundant(entries: list[str], names: Sequence[str]) -> list[str]:
    """Drop entries whose names others hit as well, those that hit least first."""
    hits = {entry: [name for name in names if matches(name, [entry])] for entry in entries}
    count = Counter(name for found in hits.values() for name in found)
    for entry in sorted(entries, key=lambda entry: (len(hits[entry]), entry)):
        if all(count[name] > 1 for name in hits[entry]):
            entries.remove(entry)
            count.subtract(hits[entry])
    return entries
