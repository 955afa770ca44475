"""YAML that anybody may have written, read in bounded time: the scalars of a mapping, and its lists of scalars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import yaml

#: The scanner's time grows with both: this much, nested this deep, takes it a few seconds at the worst.
MAX_CHARACTERS: Final = 64 << 10
_MAX_DEPTH: Final = 16
_NOTHING: Final = ("~", "null", "Null", "NULL")
_MERGE: Final = "<<"


def scalars_of(text: str) -> dict[str, str | list[str]] | None:
    """What a mapping says in text or in a list of texts, by key, each as written; None where `text` is no mapping.

    Entries of any other kind are left out, and so is what says nothing, such as null.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        root = yaml.compose(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    # Nodes are looked at two levels deep and no further, so aliases cannot multiply.
    return dict(_entries(root)) if isinstance(root, yaml.MappingNode) else None


class _Loader(yaml.BaseLoader):
    """Stops at what is nested too deeply, before the scanner has gone through it."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise yaml.YAMLError(f"nested more than {_MAX_DEPTH} levels deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _entries(root: yaml.MappingNode) -> Iterator[tuple[str, str | list[str]]]:
    """Keys and values, those that are merged in first, so that the mapping's own prevail."""
    merged = [node for key, value in root.value if key.value == _MERGE for node in _merged(value)]
    # Each once: a list may name one mapping a thousand times. Of several the first prevails.
    for mapping in [*reversed({id(node): node for node in merged}.values()), root]:
        for key, value in mapping.value:
            if isinstance(key, yaml.ScalarNode) and (found := _value(value)):
                yield key.value, found


def _merged(value: yaml.Node) -> list[yaml.MappingNode]:
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [node for node in nodes if isinstance(node, yaml.MappingNode)]


def _value(node: yaml.Node) -> str | list[str]:
    if isinstance(node, yaml.ScalarNode):
        return _said(node)
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return [text for item in items if isinstance(item, yaml.ScalarNode) and (text := _said(item))]


def _said(node: yaml.ScalarNode) -> str:
    """The text of a scalar; none where it is a null."""
    return "" if node.style is None and node.value in _NOTHING else str(node.value)
