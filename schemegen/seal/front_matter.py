"""The YAML on top of a model card: what the output inherits from the base model's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from schemegen.checkpoint.model import Checkpoint
from schemegen.manifest import CARD_NAME

_INHERITED: Final = ("license", "license_name", "license_link", "language", "pipeline_tag", "tags")
_LISTS: Final = frozenset({"language", "tags"})
_MAX_BYTES: Final = 64 << 10
_MAX_ITEMS: Final = 200
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
    return _plain(_parsed(block[1])) if block else {}


def _parsed(text: str) -> Mapping[str, Any]:
    import yaml

    try:
        # Aliases are how YAML bombs are made; BaseLoader reads every scalar as text, the language `no` too.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.BaseLoader)):
            return {}
        found = yaml.load(text, yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key in _INHERITED:
        value = found.get(key)
        if isinstance(value, str) and value:
            kept[key] = value
        elif key in _LISTS and isinstance(value, list) and all(isinstance(item, str) for item in value):
            kept[key] = value[:_MAX_ITEMS]
    return kept


def rendered(inherited: Mapping[str, Any], base_model: str | None) -> str:
    """The front matter with its fences, or nothing where there is nothing to say."""
    import yaml

    base = {"base_model": base_model, "base_model_relation": "quantized"} if base_model else {}
    fields = {**inherited, **base}
    return f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}---\n\n" if fields else ""
