"""How two runs differ, in lines that name what differs and not merely that something does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_NAMELESS: Final = "?"
_MOST_NAMES: Final = 12


def differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each field that differs: its place, what stands there, and what the run has now."""
    return [
        f"  {place}: {_told(old, new)}"
        for name in sorted(there.keys() | now.keys())
        if there.get(name) != now.get(name)
        for place, old, new in [_first(name, there.get(name), now.get(name))]
    ]


def from_headers(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run's identity is known before more of its source is there than headers."""
    source = [shard for shard in identity.get("source") or () if isinstance(shard, dict)]
    shards = [{key: shard.get(key) for key in ("name", "size", "header_digest")} for shard in source]
    return {**{key: value for key, value in identity.items() if key != "source_files"}, "source": shards}


def _first(place: str, there: Any, now: Any) -> tuple[str, Any, Any]:
    """The innermost place at which two values first differ."""
    if isinstance(there, dict) and isinstance(now, dict):
        for key in sorted(there.keys() | now.keys()):
            if there.get(key) != now.get(key):
                return _first(f"{place}.{key}", there.get(key), now.get(key))
    if isinstance(there, list) and isinstance(now, list) and [*map(_name, there)] == [*map(_name, now)]:
        for old, new in zip(there, now, strict=True):
            if old != new:
                return _first(f"{place}.{_name(old)}", old, new)
    return place, there, now


def _told(there: Any, now: Any) -> str:
    """Both values; of lists of things that have names the names alone."""
    if _are_named(there) and _are_named(now):
        return f"made with {_listed(there)}; now {_listed(now)}"
    return f"there {_brief(there)}, now {_brief(now)}"


def _are_named(value: Any) -> bool:
    return isinstance(value, list) and all(_name(item) != _NAMELESS for item in value)


def _listed(items: list[Any]) -> str:
    more = f" and {len(items) - _MOST_NAMES} more" if len(items) > _MOST_NAMES else ""
    return ", ".join(map(_name, items[:_MOST_NAMES])) + more if items else "none"


def _name(item: Any) -> str:
    return str(item.get("name", item.get("label", _NAMELESS))) if isinstance(item, dict) else _NAMELESS


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
