"""The YAML on top of a model card: what the output inherits from the base model's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemegen.checkpoint.model import Checkpoint
from schemegen.manifest import CARD_NAME
from schemegen.seal.durable import whole

_INHERITED: Final = ("license", "license_name", "license_link", "language", "library_name", "pipeline_tag", "tags")
_LISTS: Final = frozenset({"license", "language", "tags"})
_MAX_BYTES: Final = 16 << 20
#: As the Hub finds them, which lets empty lines stand in front.
_OPENING: Final = re.compile(r"\A\s*---[ \t]*\n")
_CLOSING: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_KEY: Final = re.compile(rf"""(["']?)({"|".join(_INHERITED)})\1[ \t]*:(?=\s|$)""")
_CONTINUES: Final = frozenset({"", " ", "\t", "-", "#", "]", "}"})


def front_matter_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the source's README says of license, language and tags; nothing where it says so in no plain way."""
    from schemegen.seal.bounded_yaml import scalars_of

    block = _block(checkpoint)
    found = scalars_of(block)
    if found is None:
        found = _rescued(block)
    plain = {key: found[key] for key in _INHERITED if key in found}
    return {key: _whole(value) for key, value in plain.items() if isinstance(value, str) or key in _LISTS}


def _block(checkpoint: Checkpoint) -> str:
    """The text between the fences, with plain line ends."""
    if all(file.name != CARD_NAME for file in checkpoint.side_files):
        return ""
    try:
        with checkpoint.path(CARD_NAME).open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    return text[opening.end() : closing.start()] if opening and closing else ""


def _rescued(block: str) -> dict[str, str | list[str]]:
    """Of a block that is too long or is no YAML, the inherited fields that are, the most important first."""
    from schemegen.seal.bounded_yaml import MAX_CHARACTERS, scalars_of

    fields, left = _fields(block), MAX_CHARACTERS
    found: dict[str, str | list[str]] = {}
    for name in _INHERITED:
        if (field := fields.get(name)) is not None and len(field) <= left:
            left -= len(field)
            found |= scalars_of(field) or {}
    return found


def _fields(block: str) -> Mapping[str, str]:
    """The text of every inherited field by its key, the last of several, found by lines that are indented least."""
    lines = block.splitlines()
    first = next((line for line in lines if line.strip() and line.lstrip()[:1] != "#"), "")
    margin = first[: len(first) - len(first.lstrip(" "))]
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for line in (line.removeprefix(margin) for line in lines):
        if line[:1] not in _CONTINUES:
            key = _KEY.match(line)
            current = []
            if key:
                fields[key[2]] = current
        current.append(line)
    return {name: "\n".join(field) for name, field in fields.items()}


def _whole(value: str | list[str]) -> str | list[str]:
    return whole(value) if isinstance(value, str) else [whole(item) for item in value]


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
