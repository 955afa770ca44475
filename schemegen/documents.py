"""Strict YAML files: plain values, and the line on which each of them stands.

There are three readers of YAML. StrictLoader here is that of schemes, policies and cases, which people write: it
refuses what they cannot mean, with the line. libyaml's CSafeLoader takes all of that and is ten times as fast:
`load_shipped` reads our own files with it, and a test holds both to the same values. seal.bounded_yaml reads model
cards, which strangers write and where little matters: whatever it cannot read in bounded time it leaves out.
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from schemegen.errors import SchemeFault, SchemeFileError, plain
from schemegen.registry import YAML_SUFFIXES as YAML_SUFFIXES

if TYPE_CHECKING:
    Loader: TypeAlias = type[yaml.SafeLoader] | type[yaml.CSafeLoader]

MAX_BYTES: Final = 1 << 20
#: By YAML's word for a value that JSON does not have, what a person calls it.
_NO_JSON: Final = {
    "timestamp": "a date",
    "binary": "binary data",
    "set": "a set",
    "omap": "an ordered mapping",
    "pairs": "a list of pairs",
}
_TAG: Final = "tag:yaml.org,2002:"
Place: TypeAlias = tuple[str | int, ...]
"""Keys of mappings and positions in lists, from the top down."""


class StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (no YAML bombs), silently overwritten keys, and values that JSON does not have."""

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

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """A number that there is."""
        try:
            value: float = (
                self.construct_yaml_int(node) if node.tag == f"{_TAG}int" else self.construct_yaml_float(node)
            )
        except ValueError:
            raise yaml.MarkedYAMLError(None, None, "this is no number that can be read", node.start_mark) from None
        if not isinstance(value, int) and not math.isfinite(value):
            raise yaml.MarkedYAMLError(None, None, f"{node.value} is no number", node.start_mark)
        return value

    def refuse_value(self, node: yaml.Node) -> None:
        """For what is written as no text and is none of JSON's values."""
        kind = _NO_JSON[node.tag.removeprefix(_TAG)]
        raise yaml.MarkedYAMLError(None, None, f"{kind} is not taken; put text in quotes", node.start_mark)


for _name in ("int", "float"):
    StrictLoader.add_constructor(f"{_TAG}{_name}", StrictLoader.construct_number)
for _name in _NO_JSON:
    StrictLoader.add_constructor(f"{_TAG}{_name}", StrictLoader.refuse_value)


@dataclass(frozen=True, slots=True)
class Document:
    """A file that holds a mapping of fields: its values, and the nodes they were made from, which know their lines."""

    path: Path
    data: dict[str, Any]
    root: yaml.Node
    _below: dict[int, dict[str, tuple[int, yaml.Node]]] = field(default_factory=dict, repr=False, compare=False)

    def fault(self, place: Place, message: str, *, is_missing: bool = False) -> SchemeFault:
        """A fault at a place, as far as the file goes there: what stands in no file is no part of the field.

        `is_missing`: it is the last part of the place that should stand there and does not.
        """
        told, line, node = [], None, self.root
        for part in place:
            if (found := self._step(node, part)) is not None:
                line, node = found
                told.append(part)
        if is_missing:
            told.append(place[-1])
        return SchemeFault(str(self.path), ".".join(map(str, told)), message, line)

    def _step(self, node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
        """The line and node of a key's value or of an item, or None where there is no such."""
        if isinstance(node, yaml.MappingNode):
            if id(node) not in self._below:
                pairs = {key.value: (key.start_mark.line + 1, value) for key, value in node.value}
                self._below[id(node)] = pairs
            return self._below[id(node)].get(str(part))
        if isinstance(node, yaml.SequenceNode) and str(part).isdecimal() and int(part) < len(node.value):
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
        raise _broken(path, error) from None
    except UnicodeEncodeError:
        raise file_error(path, "an escape spells half a character; write the character itself") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise file_error(path, f"not plain YAML: {plain(str(error))}") from None
    if root is None:
        raise file_error(path, "is empty; expected a mapping of fields, schema_version and name among them")
    if not isinstance(data, dict):
        raise file_error(path, f"expected a mapping of fields and found {_kind(data)}")
    return Document(path, data, root)


def is_file_name(given: str | Path) -> bool:
    """Whether what may be a name or a file is a file."""
    return isinstance(given, Path) or given.endswith(YAML_SUFFIXES)


def yaml_files(folder: Path) -> list[Path]:
    """The YAML files in a folder, sorted, without those of the folders in it; SchemeFileError where there is none."""
    if not folder.is_dir():
        kind = "it is a file, and a folder is wanted" if folder.exists() else "no such folder"
        raise file_error(folder, f"cannot be read: {kind}")
    found = sorted(path for path in folder.iterdir() if path.suffix in YAML_SUFFIXES and not path.is_dir())
    if not found:
        raise file_error(folder, "holds no YAML file; folders inside it are not searched")
    return found


def _broken(path: Path, error: yaml.MarkedYAMLError) -> SchemeFileError:
    """What the parser says, where it says so; of what the file's end leaves open, where that begins."""
    problem, mark = str(error.problem), error.problem_mark
    if problem.startswith("but ") or (mark is not None and _is_end(mark)):
        problem = f"{error.context}, {problem}" if error.context else problem
        mark = error.context_mark if mark is not None and _is_end(mark) and error.context_mark else mark
    if mark is None:
        return file_error(path, plain(problem))
    line, column = mark.line + 1, mark.column + 1
    if _is_end(mark):
        lines = str(mark.buffer)[: mark.pointer].rstrip().splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
    return file_error(path, f"{plain(problem)} (column {column})", line)


def _is_end(mark: yaml.Mark) -> bool:
    return mark.buffer is not None and mark.buffer[mark.pointer] == "\0"


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
