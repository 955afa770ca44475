"""Stand-ins for what is faulty in a scheme or policy file, so that one fault does not hide the next.

What a stand-in hides of a rule is looked at as it stands in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final

from schemegen.documents import Place
from schemegen.policy import Policy
from schemegen.registry import NAME_PATTERN
from schemegen.rule import Rule, backward_span
from schemegen.scheme import RESERVED, Scheme
from schemegen.shadows import own_shadow_faults

Fields = dict[str, Any]

_FORMAT: Final[Fields] = {"num_bits": 8, "strategy": "channel"}
#: A name in the place of an entry of a scheme's policy, which nobody looks up: `loader.parse` tells where it stands.
_ENTRY: Final = "faulty"
#: Each rule is held against all formats.
_MOST_USED: Final = 100
_FIELDS: Final[Fields] = {"schema_version": 1, "name": "file", "summary": "a file with faults", "policy": []}


def mended(data: Fields, places: Iterable[Place]) -> Fields:
    """The fields of a file with stand-ins at the places of faults; names of formats and positions of rules stay."""
    fields = dict(data)
    for place in places:
        _mend(fields, *place[:3])
    return fields


def value_at(data: Any, place: Place) -> Any:
    """The value at a place, as far as the file goes there."""
    for part in place:
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            data = data[part]  # type: ignore[index]
    return data


def hidden_faults(data: Fields, found: object, told: frozenset[Place]) -> Iterator[tuple[Place, str]]:
    """What is wrong with `layers` and `use` in rules of a file that have a stand-in for another fault."""
    if not isinstance(found, Scheme | Policy):
        return
    formats = data["formats"] if isinstance(found, Scheme) and ("formats",) not in told else None
    for place in sorted(told, key=str):
        rule = value_at(data, place)
        if len(place) == 2 and place[0] in ("policy", "rules") and isinstance(rule, dict):
            yield from ((place, fault) for fault in _layers_faults(found, str(place[0]), rule.get("layers")))
            use = rule.get("use")
            if isinstance(found, Scheme) and formats and isinstance(use, str) and use not in formats:
                yield from (((*place, "use"), fault) for fault in _use_faults(found, use))


def _layers_faults(found: Scheme | Policy, field: str, layers: object) -> list[str]:
    """What is told of a rule whose layers run backwards; nothing of what names no layers at all."""
    try:
        rule = Rule.model_validate({"use": "keep", "layers": layers})
    except ValueError:
        return []
    if backward_span(rule) is None:
        return []
    return [fault for _, fault in own_shadow_faults(found.model_copy(update={field: (rule,)}))]


def _use_faults(found: Scheme, use: str) -> list[str]:
    """What is wrong with the format that a rule of a scheme names."""
    try:
        found.format_name(use, "")
    except ValueError as error:
        return [str(error).removeprefix(": use: ")]
    return []


def _mend(fields: Fields, field: str | int = "", below: str | int | None = None, deeper: str | int = "") -> None:
    held = fields.get(str(field))
    if field == "formats":
        fields["formats"] = _formats(fields, below, deeper)
    elif isinstance(held, list) and isinstance(below, int):
        stand_in = _ENTRY if field == "policy" else _rule_unlike(held)
        fields[str(field)] = [*held[:below], stand_in, *held[below + 1 :]]
    elif field in _FIELDS:
        fields[str(field)] = _FIELDS[str(field)]
    else:
        fields.pop(str(field), None)


def _formats(fields: Fields, name: str | int | None, below: str | int) -> Fields:
    """Formats with a stand-in for the one of a name, or for all: then of the names that the rules use."""
    held = fields.get("formats")
    if name is None or not isinstance(held, dict):
        return dict.fromkeys(_used(fields.get("policy")), _FORMAT) or {_ENTRY: _FORMAT}
    if name not in held:
        return held
    if below == "[key]" or name in RESERVED:
        # Of a name that none may have no stand-in would do.
        return {other: format for other, format in held.items() if other != name} or {_ENTRY: _FORMAT}
    return {**held, str(name): _FORMAT}


def _used(entries: object) -> list[str]:
    """The names of formats that rules use, once each: the first, as many as a person would write."""
    rules = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    uses = dict.fromkeys(use for rule in rules if isinstance(use := rule.get("use"), str) and use not in RESERVED)
    return [use for use in uses if NAME_PATTERN.fullmatch(use)][:_MOST_USED]


def _rule_unlike(rules: Sequence[Any]) -> Fields:
    """A rule that selects nothing, in a way that no other does: one of its name would shadow the next."""
    names = {rule.get("name") for rule in rules if isinstance(rule, dict) and isinstance(rule.get("name"), str)}
    return {"use": "keep", "name": next(name for number in count() if (name := f"re:(?!){number}") not in names)}
