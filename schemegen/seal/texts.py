"""The texts that loaders read: config.json with its new block, and the index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from schemegen.errors import OutputError
from schemegen.verifier.texts import BLOCK_NAME, differ_beyond_block

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def index_text(weight_map: Mapping[str, str], total_size: int, metadata: Mapping[str, Any]) -> str:
    """The index as the Hub's libraries write it: names sorted, `total_size` an integer, other metadata kept."""
    kept = json.dumps({**metadata, "total_size": total_size}, indent=2).replace("\n", "\n  ")
    # One call without indent: json then encodes in C, which counts with 95,000 names.
    names = json.dumps(weight_map, sort_keys=True, separators=(",\n    ", ": "))[1:-1]
    return f'{{\n  "metadata": {kept},\n  "weight_map": {{\n    {names}\n  }}\n}}\n'


def spliced_config(text: str, block: Mapping[str, Any]) -> str:
    """config.json with `quantization_config` as its last member and every other byte as it was.

    A member of that name which says nothing, such as null, gives way. OutputError if reading both shows another change.
    """
    try:
        members = list(_members(text))
    except RecursionError as error:
        raise OutputError("config.json is nested too deeply to take the quantization_config; flatten it") from error
    start = members[0].begin
    opening = text[text.index("{") + 1 : start]
    value = _dumped(block, opening)
    old = next((member for member in members if member.key == BLOCK_NAME), None)
    if old is not None:
        spliced = text[: old.value] + value + text[old.end :]
    else:
        end = members[-1].end
        spliced = f'{text[:end]},{_break(opening) or " "}"{BLOCK_NAME}": {value}{text[end:]}'
    if differ_beyond_block(spliced, text):
        raise OutputError("config.json cannot take the quantization_config unchanged; report its text as a fault")
    return spliced


class _Member(NamedTuple):
    """A member of the top object: its key, where the key begins, where the value begins and ends."""

    key: str
    begin: int
    value: int
    end: int


def _members(text: str) -> Iterator[_Member]:
    position = _skip(text, text.index("{") + 1)
    while text[position] == '"':
        key, end = _DECODER.raw_decode(text, position)
        value = _skip(text, _skip(text, end) + 1)
        _, stop = _DECODER.raw_decode(text, value)
        yield _Member(key, position, value, stop)
        position = _skip(text, stop)
        if text[position] == ",":
            position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _break(opening: str) -> str:
    """Line end and indentation of the file's members; nothing for a file on one line."""
    if "\n" not in opening:
        return ""
    return ("\r\n" if "\r\n" in opening else "\n") + opening.rpartition("\n")[2]


def _dumped(block: Mapping[str, Any], opening: str) -> str:
    """The block in the file's own indentation, as the value of a top member."""
    line = _break(opening)
    if not line:
        return json.dumps(block)
    return json.dumps(block, indent=line.lstrip("\r\n")).replace("\n", line)
