"""The YAML on top of a model card: what the output inherits from the base model's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from schemegen.checkpoint.model import Checkpoint
from schemegen.manifest import CARD_NAME
from schemegen.seal.durable import whole

_INHERITED: Final = ("license", "license_name", "license_link", "language", "pipeline_tag", "tags")
_LISTS: Final = frozenset({"language", "tags"})
_MAX_BYTES: Final = 4 << 20
_MAX_FIELD: Final = 8 << 10
_MAX_BRACKETS: Final = 8
_CONTINUES: Final = frozenset({"", " ", "\t", "-", "#"})
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_BLOCK: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


def hub_id(model_id: str) -> str | None:
    """The id where it is one of the Hub, `org/name`; None for a sample or a folder."""
    return model_id if _HUB_ID.fullmatch(model_id) else None


def front_matter_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the source's README says of license, language and tags; nothing where it says so in no plain way."""
    if all(file.name != CARD_NAME for file in checkpoint.side_files):
        return {}
    try:
        with checkpoint.path(CARD_NAME).open("rb") as file:
            text = file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return {}
    block = _BLOCK.match(text)
    fields = map(_parsed, _fields(block[1])) if block else ()
    return {key: _whole(value) for field in fields for key, value in field.items() if _is_plain(key, value)}


def _fields(block: str) -> Iterator[str]:
    """The text of every inherited field. Only these are parsed: cards carry long tables, and YAML can be a bomb."""
    lines: list[str] = []
    for line in [*block.splitlines(), "end:"]:
        if lines and line[:1] in _CONTINUES:
            lines.append(line)
            continue
        field = "\n".join(lines)
        if field.partition(":")[0] in _INHERITED and len(field) <= _MAX_FIELD:
            yield field
        lines = [line]


def _parsed(field: str) -> Mapping[str, Any]:
    import yaml

    # The scanner takes quadratic time over nested brackets, and a list of words needs one pair.
    if field.count("[") + field.count("{") > _MAX_BRACKETS:
        return {}
    try:
        # BaseLoader reads every scalar as text, the language `no` too.
        found = yaml.load(field, yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_plain(key: str, value: object) -> bool:
    if key in _LISTS and isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str) and value != ""


def _whole(value: str | list[str]) -> str | list[str]:
    return whole(value) if isinstance(value, str) else list(map(whole, value))


def rendered(inherited: Mapping[str, Any], base_model: str | None) -> str:
    """The front matter with its fences, or nothing where there is nothing to say."""
    import yaml

    base = {"base_model": base_model, "base_model_relation": "quantized"} if base_model else {}
    fields = {**inherited, **base}
    return f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}---\n\n" if fields else ""
