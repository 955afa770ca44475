"""Stand-ins for what is faulty in a scheme or policy file, so that one fault does not hide the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from schemegen.scheme import RESERVED

Fields = dict[str, Any]

_FORMAT: Final[Fields] = {"num_bits": 8, "strategy": "channel"}
#: The name of a policy that nobody has, in the place of an entry: of those it is not known what they take.
NOBODYS: Final = "0-faulty-0"
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
        rest = {name: format for name, format in held.items() if name != below}
        # Of a name that none may have no stand-in would do.
        fields["formats"] = rest if deeper == "[key]" or below in RESERVED else {**held, below: _FORMAT}
    elif isinstance(held, list) and isinstance(below, int):
        # Selects nothing, each in its own way: else it would shadow the next.
        rule = {"use": "keep", "name": f"re:(?!){below}"}
        fields[str(field)] = [*held[:below], NOBODYS if field == "policy" else rule, *held[below + 1 :]]
    elif field in _FIELDS:
        fields[str(field)] = _FIELDS[str(field)]
    else:
        fields.pop(str(field), None)
