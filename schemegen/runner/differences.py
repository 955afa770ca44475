"""How two runs differ, in lines that name what differs and not merely that something does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each field that differs: its place, what stands there, and what the run has now."""
    return [
        f"  {place}: there {_brief(old)}, now {_brief(new)}"
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
    if isinstance(there, list) and isinstance(now, list) and len(there) == len(now):
        for old, new in zip(there, now, strict=True):
            if old != new:
                return _first(f"{place}.{_name(old)}", old, new)
    return place, there, now


def _name(item: Any) -> str:
    return str(item.get("name", item.get("label", "?"))) if isinstance(item, dict) else "?"


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
