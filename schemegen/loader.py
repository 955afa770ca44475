"""Scheme and policy files: strict YAML in, models out, every fault as `file: field: message`."""

from __future__ import annotations

import difflib
import json
import stat
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import yaml
from pydantic import ValidationError

from schemegen.errors import SchemeFault, SchemeFileError
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Calibration, Format, Quantization, Scheme

MAX_BYTES: Final = 1 << 20
#: Whose fields are near a misspelt one.
_MODELS: Final = (Scheme, Format, Quantization, Calibration, Policy, Rule)
_Model = TypeVar("_Model", Scheme, Policy)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (no YAML bombs) and without silently overwritten keys."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "aliases are not taken; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(None, None, f"key {key!r} is not text", key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


if TYPE_CHECKING:
    _Loader: TypeAlias = type[yaml.SafeLoader] | type[yaml.CSafeLoader]


def load_scheme(path: str | Path) -> Scheme:
    """The scheme in a YAML file; SchemeFileError lists all its faults."""
    return _load(Path(path), Scheme)


def load_policy(path: str | Path) -> Policy:
    """The policy in a YAML file; SchemeFileError lists all its faults."""
    return _load(Path(path), Policy)


def load_schemes(folder: str | Path) -> list[Scheme]:
    """The schemes in a folder's *.yaml files, by file name; the faults of all files in one error."""
    return _load_folder(Path(folder), Scheme)


def load_policies(folder: str | Path) -> list[Policy]:
    """The policies in a folder's *.yaml files, by file name; the faults of all files in one error."""
    return _load_folder(Path(folder), Policy)


def load_shipped(folder: Path) -> tuple[list[Scheme], list[Policy]]:
    """What load_schemes and load_policies give of the folder that ships with schemegen, at a tenth of the parsing.

    Nobody else's files: libyaml looks neither for aliases nor for keys that stand twice.
    """
    quick = getattr(yaml, "CSafeLoader", _StrictLoader)
    return _load_folder(folder, Scheme, quick), _load_folder(folder / "policies", Policy, quick)


def _load_folder(folder: Path, model: type[_Model], loader: _Loader = _StrictLoader) -> list[_Model]:
    found: list[_Model] = []
    faults: list[SchemeFault] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            found.append(_load(path, model, loader))
        except SchemeFileError as error:
            faults.extend(error.faults)
    if faults:
        raise SchemeFileError(faults)
    return found


def _load(path: Path, model: type[_Model], loader: _Loader = _StrictLoader) -> _Model:
    data = _read(path, loader)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise SchemeFileError([_fault(path, item) for item in error.errors()]) from None


def _read(path: Path, loader: _Loader) -> Any:
    try:
        data = yaml.load(_raw(path), Loader=loader)
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except OSError as error:
        raise _file_error(path, f"cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise _file_error(path, f"{where}{error.problem}") from None
    except UnicodeEncodeError:
        raise _file_error(path, "an escape spells half a character; write the character itself") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise _file_error(path, f"not plain YAML: {error}") from None
    if not isinstance(data, dict):
        raise _file_error(path, "expected a mapping of fields")
    return data


def _raw(path: Path) -> bytes:
    """The file's bytes; its kind and size come first, since a pipe keeps a reader waiting and a device has no end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise _file_error(path, "cannot be read: it is not a regular file")
    if status.st_size <= MAX_BYTES:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) <= MAX_BYTES:
            return raw
    raise _file_error(path, f"larger than {MAX_BYTES} bytes; a scheme is a page of YAML")


def _file_error(path: Path, message: str) -> SchemeFileError:
    return SchemeFileError([SchemeFault(str(path), "", message)])


def _fault(path: Path, item: Any) -> SchemeFault:
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        message = _unknown_field(str(item["loc"][-1]))
    return SchemeFault(str(path), _field(item["loc"]), message[:1].lower() + message[1:])


def _field(place: tuple[str | int, ...]) -> str:
    """The place of a fault as a person wrote it: without the branch of a union that pydantic took."""
    if len(place) > 2 and place[0] == "policy":
        place = (*place[:2], *place[3:])
    return ".".join(str(part) for part in place if "[" not in str(part))


def _unknown_field(name: str) -> str:
    known = [field for model in _MODELS for field in model.model_fields]
    near = difflib.get_close_matches(name, known, n=1)
    return "unknown field" + (f"; did you mean {near[0]}?" if near else "; take it out")
