"""The `ignore` list: few regexes that hit every kept module in every engine's spelling, and no quantized one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from schemegen.architectures.base import Part
from schemegen.engines.modules import Module
from schemegen.engines.patterns import PREFIX, entries_for, exact, is_entry, matches
from schemegen.errors import PlanError


def ignore_list(modules: Sequence[Module], part_ignores: Mapping[Part, str]) -> list[str]:
    """The entries for the kept modules, in a fixed order; PlanError for one that cannot be told from the quantized."""

    def candidates(module: Module) -> Iterator[str]:
        if module.part in part_ignores:
            yield part_ignores[module.part]
        if module.ignore is not None:
            yield module.ignore
        yield from exact(module)

    kept = [module for module in modules if module.format is None]
    quantized = (name for module in modules if module.format is not None for name in module.names)
    return entries_for(kept, quantized, candidates, "ignore entry")


def unused_patterns(modules: Sequence[Module], part_ignores: Mapping[Part, str]) -> dict[str, tuple[str, int]]:
    """The architecture's patterns that hit a quantized module, that one, and how many kept ones go by place instead.

    Only where no other pattern of the architecture has the kept module.
    """
    quantized = sorted({name for module in modules if module.format is not None for name in module.names})
    hit: dict[str, str | None] = {}
    found: dict[str, tuple[str, int]] = {}
    for module in (module for module in modules if module.format is None):
        patterns = [PREFIX + text for text in (part_ignores.get(module.part), module.ignore) if text is not None]
        for pattern in patterns:
            if pattern not in hit:
                hit[pattern] = next((name for name in quantized if matches(name, [pattern])), None)
        if all(hit[pattern] is not None for pattern in patterns):
            for pattern in patterns:
                found[pattern] = (str(hit[pattern]), found.get(pattern, ("", 0))[1] + 1)
    return found


def is_ignore_list(value: object) -> bool:
    """Whether a value read from a file is a list of names and of patterns as schemegen writes them."""
    return isinstance(value, list) and all(isinstance(entry, str) and is_entry(entry) for entry in value)


def check_ignore(modules: Iterable[Module], entries: Collection[str]) -> None:
    """PlanError unless every kept module is hit and no quantized one, in every spelling, by entries as they may be."""
    strange = [entry for entry in entries if not is_entry(entry)]
    if strange:
        raise PlanError(f"{strange[0]!r} is no pattern for ignore: write names, .*, \\d+ between dots and few groups")
    for module in modules:
        for name in module.names:
            if matches(name, entries) == (module.format is None):
                continue
            kept = module.format is None
            fault = "is kept, but no entry of ignore matches it" if kept else "is quantized, but ignore matches it"
            raise PlanError(f"module {name} {fault}; engines would misread the checkpoint: choose another policy")
