"""Stand-ins for what is faulty in a scheme or policy file, so that one fault does not hide the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final

from schemegen.scheme import RESERVED

Fields = dict[str, Any]

_FORMAT: Final[Fields] = {"num_bits": 8, "strategy": "channel"}
#: A name in the place of an entry of a scheme's policy, which nobody looks up: `loader.parse` tells where it stands.
_ENTRY: Final = "faulty"
_FIELDS: Final[Fields] = {"schema_version": 1, "name": "file", "summary": "a file with faults", "policy": []}


def mended(data: Fields, places: Iterable[tuple[str | int, ...]]) -> Fields:
    """The fields of a file with stand-ins at the places of faults; names of formats and positions of rules stay."""
    fields = dict(data)
    for place in places:
        _mend(fields, *place[:3])
    return fields


def _mend(fields: Fields, field: str | int = "", below: str | int = "", deeper: str | int = "") -> None:
    held = fields.get(str(field))
    if isinstance(held, dict) and field == "formats" and below in held:
        rest = {name: format for name, format in held.items() if name != below} or {_ENTRY: _FORMAT}
        # Of a name that none may have no stand-in would do.
        fields["formats"] = rest if deeper == "[key]" or below in RESERVED else {**held, below: _FORMAT}
    elif isinstance(held, list) and isinstance(below, int):
        stand_in = _ENTRY if field == "policy" else _rule_unlike(held)
        fields[str(field)] = [*held[:below], stand_in, *held[below + 1 :]]
    elif field in _FIELDS:
        fields[str(field)] = _FIELDS[str(field)]
    else:
        fields.pop(str(field), None)


def _rule_unlike(rules: Sequence[Any]) -> Fields:
    """A rule that selects nothing, in a way that no other does: one of its name would shadow the next."""
    names = {rule.get("name") for rule in rules if isinstance(rule, dict) and isinstance(rule.get("name"), str)}
    return {"use": "keep", "name": next(name for number in count() if (name := f"re:(?!){number}") not in names)}
