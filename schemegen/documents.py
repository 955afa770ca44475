"""Strict YAML files: plain values, and the line on which each of them stands."""

from __future__ import annotations

import json
import stat
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from schemegen.errors import SchemeFault, SchemeFileError, plain

if TYPE_CHECKING:
    Loader: TypeAlias = type[yaml.SafeLoader] | type[yaml.CSafeLoader]

MAX_BYTES: Final = 1 << 20
Place = Sequence[str | int]
"""Keys of mappings and positions in lists, from the top down."""


class StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (no YAML bombs) and without silently overwritten keys."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node; an alias is an error."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "aliases are not taken; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping whose keys are text and stand once."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(None, None, f"key {key!r} is not text", key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True)
class Document:
    """A file that holds a mapping of fields: its values, and the nodes they were made from, which know their lines."""

    path: Path
    data: dict[str, Any]
    root: yaml.Node

    def fault(self, place: Place, message: str, *, is_missing: bool = False) -> SchemeFault:
        """A fault at a place, as far as the file goes there: what stands in no file is no part of the field.

        `is_missing`: it is the last part of the place that should stand there and does not.
        """
        told, line, node = [], None, self.root
        for part in place:
            if (found := _below(node, part)) is not None:
                line, node = found
                told.append(part)
        if is_missing:
            told.append(place[-1])
        return SchemeFault(str(self.path), ".".join(map(str, told)), message, line)


def _below(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """The line and node of a key's value or of an item, or None where there is no such."""
    if isinstance(node, yaml.MappingNode):
        pairs = ((key.start_mark.line + 1, value) for key, value in node.value if key.value == part)
        return next(pairs, None)
    if isinstance(node, yaml.SequenceNode) and str(part).isdigit() and int(part) < len(node.value):
        item = node.value[int(part)]
        return item.start_mark.line + 1, item
    return None


def read_document(path: Path, loader: Loader = StrictLoader) -> Document:
    """The mapping in a YAML file; SchemeFileError for anything else."""
    try:
        data, root = _parsed(_raw(path), loader)
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise file_error(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (column {mark.column + 1})" if mark else ""
        raise file_error(path, f"{plain(str(error.problem))}{where}", mark.line + 1 if mark else None) from None
    except UnicodeEncodeError:
        raise file_error(path, "an escape spells half a character; write the character itself") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise file_error(path, f"not plain YAML: {plain(str(error))}") from None
    if root is None:
        raise file_error(path, "is empty; expected a mapping of fields, schema_version and name among them")
    if not isinstance(data, dict):
        raise file_error(path, f"expected a mapping of fields and found {_kind(data)}")
    return Document(path, data, root)


def file_error(path: Path, message: str, line: int | None = None) -> SchemeFileError:
    """A SchemeFileError with one fault, which is the whole file's or a line's."""
    return SchemeFileError([SchemeFault(str(path), "", message, line)])


def _parsed(raw: bytes, loader: Loader) -> tuple[Any, yaml.Node | None]:
    reader = loader(raw)
    try:
        root = reader.get_single_node()
        return None if root is None else reader.construct_document(root), root
    finally:
        reader.dispose()


def _raw(path: Path) -> bytes:
    """The file's bytes; its kind and size come first, since a pipe keeps a reader waiting and a device has no end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder, and a YAML file is wanted" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise file_error(path, f"cannot be read: it is {kind}")
    if status.st_size <= MAX_BYTES:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) <= MAX_BYTES:
            return raw
    raise file_error(path, f"larger than {MAX_BYTES} bytes; a scheme is a page of YAML")


def _kind(data: Any) -> str:
    return "a list" if isinstance(data, list) else "one value"
