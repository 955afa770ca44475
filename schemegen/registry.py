"""Names of one kind, each with its object and the origin that registered it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from schemegen.errors import DuplicateNameError, PluginError, UnknownNameError, plain, shortened

NAME_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
YAML_SUFFIXES: Final = (".yaml", ".yml")
"""What ends so is read as a file, wherever a name may stand."""
NAME_RULE: Final = "use lower-case letters, digits, dots, dashes and underscores, with a letter or digit first"


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """What a person types to get it."""


T = TypeVar("T", bound=Named)
Fault = Callable[[T, Iterable[T]], str | None]


class Registry(Generic[T]):
    """All objects of one kind by name. `kind` is the word used in messages: "scheme", "backend".

    `fault` says what is wrong with an object beyond its type and name, given those that are there, or None.
    """

    def __init__(self, kind: str, type_: type[T], fault: Fault[T] | None = None) -> None:
        self.kind = kind
        self.type = type_
        self._fault = fault
        self._entries: dict[str, tuple[T, str]] = {}

    def add(self, obj: T, *, origin: str) -> None:
        """Register one object; PluginError for a wrong type or name, DuplicateNameError for a name that is taken."""
        self.add_all([obj], origin=origin)

    def add_all(self, objs: Iterable[T], *, origin: str) -> tuple[str, ...]:
        """Register all objects or, when one is refused or the iterable raises, none of them. Returns their names."""
        staged = dict(self._entries)
        for obj in objs:
            self._check(obj, origin, staged)
            if obj.name in staged:
                raise DuplicateNameError(self.kind, obj.name, staged[obj.name][1], origin)
            staged[obj.name] = (obj, origin)
        added = tuple(staged)[len(self._entries) :]
        self._entries = staged
        return added

    def get(self, name: str, notes: Sequence[str] = ()) -> T:
        """The object of that name; UnknownNameError suggests the nearest names and appends `notes`."""
        if name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries, notes)
        return self._entries[name][0]

    def origin(self, name: str) -> str:
        """Who registered the name: a distribution and its version, or "schemegen"."""
        self.get(name)
        return self._entries[name][1]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    def __iter__(self) -> Iterator[T]:
        """The objects in the order of their names."""
        return (self._entries[name][0] for name in self.names())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def _check(self, obj: object, origin: str, staged: Mapping[str, tuple[T, str]]) -> None:
        if not isinstance(obj, self.type):
            raise _refused(origin, f"{_a(self.kind)} must be {_a(self.type.__name__)}, not {typed(obj)}")
        name: object = obj.name
        if not (isinstance(name, str) and NAME_PATTERN.fullmatch(name)):
            told = shortened(name) if isinstance(name, str) else typed(name)
            raise _refused(origin, f"{told} cannot name {_a(self.kind)}; {NAME_RULE}")
        if fault := file_fault(name):
            raise _refused(origin, f"{shortened(name)} cannot name {_a(self.kind)}; {fault}")
        others = (other for other, _ in staged.values() if other.name != name)
        if self._fault is not None and (reason := self._fault(obj, others)):
            raise _refused(origin, f"{self.kind} {name}: {reason}")


def file_fault(name: str) -> str | None:
    """Why a name can never be asked for: it is read as a file's."""
    return "what ends in .yaml or .yml is read as a file" if name.endswith(YAML_SUFFIXES) else None


def typed(obj: object) -> str:
    """How a message names an object of the wrong type: a class passed in place of an instance is a common slip."""
    if isinstance(obj, type):
        return f"the class {obj.__name__}"
    try:
        return plain(f"{type(obj).__name__} {obj!r:.60}")
    except Exception:
        return type(obj).__name__


def _a(noun: str) -> str:
    """The noun with its article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _refused(origin: str, reason: str) -> PluginError:
    distribution, _, version = origin.partition(" ")
    return PluginError(distribution, distribution, version or "(built in)", reason)
