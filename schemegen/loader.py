"""Scheme and policy files: strict YAML in, models out, every fault as `file:line: field: message`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from schemegen.documents import Document, Place, StrictLoader, file_error, read_document, yaml_files
from schemegen.errors import SchemeFault, SchemeFileError, plain, shortened
from schemegen.mending import hidden_faults, mended, value_at
from schemegen.policy import Policy
from schemegen.registry import NAME_RULE
from schemegen.rule import Rule
from schemegen.scheme import Calibration, Format, Quantization, Scheme
from schemegen.shadows import own_shadow_faults

if TYPE_CHECKING:
    from schemegen.documents import Loader

_Model = TypeVar("_Model", bound=BaseModel)
_Item = Mapping[str, Any]
#: By the field on top, whose fields stand below it.
_BELOW: Final[Mapping[str | int, tuple[type[BaseModel], ...]]] = {
    "formats": (Format, Quantization),
    "policy": (Rule,),
    "rules": (Rule,),
    "calibration": (Calibration,),
    "kv_cache": (Quantization,),
}
#: Fields are looked at first, then wholes, then what is left when their faults are gone.
_ROUNDS: Final = 4
#: Nobody reads more faults of one file, and to look for the nearest name takes its time.
_MOST_TOLD: Final = 100
_WORDS: Final[Mapping[type[BaseModel], str]] = {Scheme: "scheme", Policy: "policy"}
#: What a value of the wrong kind must be, by pydantic's word for the fault.
_KINDS: Final = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "int_type": "a whole number",
    "model_type": "a mapping of fields",
    "string_type": "text",
    "tuple_type": "a list",
}


@dataclass(frozen=True, slots=True)
class Parsed(Generic[_Model]):
    """What a file holds and all its faults; `stand_ins` are where those are, and `found` None where none would do."""

    found: _Model | None
    faults: tuple[SchemeFault, ...] = ()
    stand_ins: frozenset[Place] = frozenset()


def load_scheme(path: str | Path) -> Scheme:
    """The scheme in a YAML file; SchemeFileError lists all its faults."""
    return load_model(path, Scheme)


def load_policy(path: str | Path) -> Policy:
    """The policy in a YAML file; SchemeFileError lists all its faults."""
    return load_model(path, Policy)


def load_model(path: str | Path, model: type[_Model]) -> _Model:
    """What a YAML file says as `model`, read as strictly as a scheme; SchemeFileError lists all its faults."""
    return _validated(read_document(Path(path)), model)


def load_file(path: str | Path) -> Scheme | Policy:
    """What a YAML file holds, scheme or policy; SchemeFileError lists all its faults."""
    document = read_document(Path(path))
    kind: type[Scheme | Policy] = kind_of(document.data)
    return _validated(document, kind)


def kind_of(fields: Iterable[str]) -> type[Scheme] | type[Policy]:
    """Scheme or Policy: by `formats` or `rules` or, of a file that has both or neither, by how many names are near."""
    given = set(fields)
    if ("formats" in given) != ("rules" in given):
        return Scheme if "formats" in given else Policy

    return Policy if _nearness(Policy, given) > _nearness(Scheme, given) else Scheme


def _nearness(model: type[BaseModel], given: Iterable[str]) -> int:
    return sum(bool(difflib.get_close_matches(name, model.model_fields, n=1, cutoff=0.8)) for name in given)


def load_schemes(folder: str | Path) -> list[Scheme]:
    """The schemes in a folder's YAML files, by file name; SchemeFileError where there is none, or with all faults."""
    return _load_folder(Path(folder), Scheme)


def load_policies(folder: str | Path) -> list[Policy]:
    """The policies in a folder's YAML files, by file name; SchemeFileError where there is none, or with all faults."""
    return _load_folder(Path(folder), Policy)


def load_shipped(folder: Path) -> tuple[list[Scheme], list[Policy]]:
    """What load_schemes and load_policies give of the folder that ships with schemegen, at a tenth of the parsing.

    Nobody else's files: libyaml looks neither for aliases nor for keys that stand twice.
    """
    quick = getattr(yaml, "CSafeLoader", StrictLoader)
    return _load_folder(folder, Scheme, quick), _load_folder(folder / "policies", Policy, quick)


def _load_folder(folder: Path, model: type[_Model], loader: Loader = StrictLoader) -> list[_Model]:
    found: list[_Model] = []
    faults: list[SchemeFault] = []
    for path in yaml_files(folder):
        try:
            found.append(_validated(read_document(path, loader), model))
        except SchemeFileError as error:
            faults.extend(error.faults)
    if faults:
        raise SchemeFileError(faults)
    return found


def parse(document: Document, model: type[_Model]) -> Parsed[_Model]:
    """The model that a file holds, and all its faults.

    pydantic looks at a whole only when all its fields are right: with stand-ins for what is not, it goes on.
    """
    data, told, faults = document.data, frozenset[Place](), list[SchemeFault]()
    for _ in range(_ROUNDS if model in (Scheme, Policy) else 1):
        try:
            found = model.model_validate(data)
            shadowed = [item for item in own_shadow_faults(found) if item[0] not in told]
            faults += [document.fault(*item) for item in (*shadowed, *hidden_faults(document.data, found, told))]
            return Parsed(found, tuple(faults), told)
        except ValidationError as error:
            items, faulty = _own(document, error.errors(include_url=False), told)
            faults += [_fault(document, model, item) for item in items[:_MOST_TOLD]]
            if rest := items[_MOST_TOLD:]:
                first = _fault(document, model, rest[0])
                faults.append(SchemeFault(first.file, "", f"here and below are {len(rest)} more faults", first.line))
                break
            told |= {item["loc"][:2] for item in faulty}
            data = mended(data, [item["loc"] for item in faulty])
    return Parsed(None, tuple(faults), told)


def _own(document: Document, items: Sequence[Any], told: frozenset[Place]) -> tuple[list[_Item], list[_Item]]:
    """The faults that are the file's own, and these with all else that needs a stand-in.

    No own ones are those of stand-ins, nor what follows from a fault told before: such is a list that lacks but its
    faulty items, and a rule that uses a format of a name that none may have, or any where no formats can be read.
    """
    places = {item["loc"][:size] for item in items for size in range(len(item["loc"]))}
    lacks_only = [item for item in items if item["type"] == "too_short" and item["loc"] in places]
    faulty = [item for item in items if item["loc"][:2] not in told and item not in lacks_only]
    formats = document.data.get("formats")

    def follows(item: _Item) -> bool:
        if item["loc"][-1:] != ("use",) or item["type"] != "fault":
            return False
        used = value_at(document.data, item["loc"])
        return ("formats",) in told or (isinstance(formats, dict) and isinstance(used, str) and used in formats)

    return [item for item in faulty if not follows(item)], faulty


def _validated(document: Document, model: type[_Model]) -> _Model:
    _check_kind(document, model)
    parsed = parse(document, model)
    if parsed.found is None or parsed.faults:
        raise SchemeFileError(in_order(parsed.faults))
    return parsed.found


def _check_kind(document: Document, model: type[BaseModel]) -> None:
    """One sentence rather than a fault for every field, where the file is plainly one of the other kind."""
    kind = kind_of(document.data)
    if model in _WORDS and kind is not model and ("formats" in document.data) != ("rules" in document.data):
        raise file_error(document.path, f"is a {_WORDS[kind]}, and a {_WORDS[model]} is wanted")


def in_order(faults: Iterable[SchemeFault]) -> list[SchemeFault]:
    """Faults by line; where one value may be of several kinds, pydantic's fault for each of them in one."""
    return sorted(_merged(faults), key=lambda fault: fault.line or 0)


def _fault(document: Document, model: type[BaseModel], item: Any) -> SchemeFault:
    return document.fault(item["loc"], _message(model, item), is_missing=item["type"] == "missing")


def _message(model: type[BaseModel], item: Any) -> str:
    """A fault in a person's words."""
    kind, message = str(item["type"]), str(item["msg"]).removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return _unknown_field(model, item["loc"])
    if kind == "string_pattern_mismatch":
        return f"{shortened(str(item['input']))} cannot be a name; {NAME_RULE}"
    if kind == "too_short":
        return "is empty; give at least one"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}"
    if message.startswith("Input should be "):
        return f"must be {message.removeprefix('Input should be ').removeprefix('a valid ')}"
    return plain(message[:1].lower() + message[1:])


def _merged(faults: Iterable[SchemeFault]) -> list[SchemeFault]:
    """Faults where what one value may be stands in one: pydantic tells each branch of a union for itself."""
    merged: dict[tuple[str, bool], SchemeFault] = {}
    for fault in faults:
        is_kind = fault.message.startswith("must be ")
        key = (fault.field if is_kind else f"{fault.field} {fault.message}", is_kind)
        earlier = merged.setdefault(key, fault)
        if earlier is not fault and is_kind:
            message = f"{earlier.message} or {fault.message.removeprefix('must be ')}"
            merged[key] = SchemeFault(fault.file, fault.field, message, fault.line)
    return list(merged.values())


def _unknown_field(model: type[BaseModel], place: tuple[str | int, ...]) -> str:
    models = (model,) if len(place) == 1 else _BELOW.get(place[0], (model,))
    known = list(dict.fromkeys(field for one in models for field in one.model_fields))
    near = difflib.get_close_matches(str(place[-1]), known, n=1)
    return f"unknown field; did you mean {near[0]}?" if near else f"unknown field; known are {', '.join(known)}"
