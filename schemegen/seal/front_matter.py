"""The YAML on top of a model card: what the output inherits from the base model's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemegen.checkpoint.model import Checkpoint
from schemegen.manifest import CARD_NAME
from schemegen.seal.durable import whole

_INHERITED: Final = ("license", "license_name", "license_link", "language", "library_name", "pipeline_tag", "tags")
_LISTS: Final = frozenset({"license", "language", "tags"})
_NOTHING: Final = ("", "~", "null", "Null", "NULL")
_MAX_BYTES: Final = 4 << 20
_MAX_FIELD: Final = 8 << 10
_MAX_BRACKETS: Final = 8
_CONTINUES: Final = frozenset({"", " ", "\t", "-", "#"})
#: As the Hub finds it, which lets empty lines stand in front.
_BLOCK: Final = re.compile(r"\A\s*---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)


def front_matter_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the source's README says of license, language and tags; nothing where it says so in no plain way."""
    if all(file.name != CARD_NAME for file in checkpoint.side_files):
        return {}
    try:
        with checkpoint.path(CARD_NAME).open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8-sig", errors="replace")
    except OSError:
        return {}
    block = _BLOCK.match(text.replace("\r\n", "\n").replace("\r", "\n"))
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
    return isinstance(value, str) and value not in _NOTHING


def _whole(value: str | list[str]) -> str | list[str]:
    if isinstance(value, str):
        return whole(value)
    return [whole(item) for item in value if item not in _NOTHING]


def rendered(fields: Mapping[str, Any], base_model: str | None, tags: Sequence[str] = ()) -> str:
    """The front matter with its fences: fields as the Hub takes them, the base model, and tags behind those there."""
    import yaml

    base = {"base_model": base_model, "base_model_relation": "quantized"} if base_model else {}
    known = fields.get("tags", [])
    all_tags = [*known, *(tag for tag in tags if tag not in known)]
    ordered = {**base, **{name: value for name, value in fields.items() if name != "tags"}}
    block = ordered | ({"tags": all_tags} if all_tags else {})
    # One line a value, however long: the Hub ends the block at the first line of three dashes.
    text = yaml.safe_dump(block, sort_keys=False, allow_unicode=True, width=1 << 20)
    return f"---\n{text}---\n\n" if block else ""
