"""The groups of a config as formats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from schemegen.described.block import Block, StoredGroup
from schemegen.described.naming import shown
from schemegen.errors import CheckpointError, UnsupportedError
from schemegen.formats import storage_fault, storage_of
from schemegen.scheme import Format, Quantization

#: On top of a config, where each group has its own or none.
_NO_STORAGE: Final = (None, "mixed-precision", "dense")
#: Fields that a person writes whatever they say.
_SPOKEN: Final = ("num_bits", "type", "strategy", "group_size", "block_structure", "symmetric")
_MAX_PATTERN: Final = 2000
_MAX_REPEATS: Final = 6
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_SETS: Final = re.compile(r"\[[^]]*\]")
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a config: its name there, the modules it is for, and what becomes of them."""

    name: str
    targets: tuple[str, ...]
    format: Format


def groups_of(block: Block) -> list[Group]:
    """The groups in order; UnsupportedError for an unknown storage.

    CheckpointError for a pattern, of a target or of `ignore`, that cannot be matched.
    """
    for entry in block.ignore:
        _check_entry("ignore's", entry)
    return [_group(name, group, block.format) for name, group in block.config_groups.items()]


def _group(name: str, stored: StoredGroup, on_top: str | None) -> Group:
    for target in stored.targets:
        _check_entry(f"{shown(name)}'s target", target)
    format = _format(stored, on_top)
    if fault := storage_fault(format):
        raise UnsupportedError(f"config.json: {shown(name)} is stored in a way that no scheme offers: {fault}")
    return Group(name, stored.targets, format)


def _format(stored: StoredGroup, on_top: str | None) -> Format:
    """The group as a person would write it: `storage` only where it is not the one that is inferred."""
    body: dict[str, Any] = {"weights": spoken(stored.weights)}
    for name in ("input_activations", "output_activations"):
        values = getattr(stored, name)
        body |= {} if values is None else {name: spoken(values, observed=values.dynamic is False)}
    inferred = Format.model_validate(body)
    given = stored.format or (None if on_top in _NO_STORAGE else on_top)
    if given is None or given == storage_of(inferred):
        return inferred
    as_given = Format.model_validate(body | {"storage": given})
    # What stands on top is the first group's; others may have left out their own.
    return inferred if stored.format is None and storage_fault(as_given) else as_given


def spoken(values: Quantization, *, observed: bool = True) -> dict[str, Any]:
    """The arguments with defaults left out, and no observer of what nobody observes."""
    told = values.model_dump(mode="json", exclude_defaults=True)
    if not observed or values.observer is None:
        told.pop("observer", None)
    always = {name: getattr(values, name) for name in _SPOKEN if getattr(values, name) is not None}
    if values.block_structure is not None:
        always["block_structure"] = list(values.block_structure)
    return {**always, **{name: value for name, value in told.items() if name not in always}}


def _check_entry(whose: str, entry: str) -> None:
    fault = pattern_fault(entry[3:]) if entry.startswith("re:") else None
    if fault:
        raise CheckpointError(f"config.json: {whose} {entry[:80]!r} {fault}", "mend the config or download it again")


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern from anywhere is not matched, or None: one that repeats groups may take for ever."""
    plain = _SETS.sub("x", _ESCAPED.sub("x", pattern))
    repeats = sum(plain.count(mark) for mark in "*+{")
    if len(pattern) > _MAX_PATTERN or repeats > _MAX_REPEATS or _REPEATED_GROUP.search(plain):
        return "may take for ever to match; a name needs no more than a few .*"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    return None
