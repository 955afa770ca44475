"""Whether scheme and policy files are right: all that can be told without a model, all faults of all files at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from schemegen.architectures.base import Part, Role
from schemegen.backends.guard import GuardedBackend
from schemegen.backends.offers import UNTAKEN, methods_of, refusal_of
from schemegen.catalog import Catalog, load_catalog
from schemegen.documents import Document, Place, read_document
from schemegen.engines.declaration import UNQUANTIZED_ROLES
from schemegen.engines.limits import unserved
from schemegen.engines.uses import Kind, Use
from schemegen.errors import PluginError, SchemeFault, SchemeFileError, SchemegenError, UnknownNameError, shortened
from schemegen.formats import storage_fault, storage_of
from schemegen.loader import in_order, kind_of, parse
from schemegen.mending import NOBODYS
from schemegen.planner.rules import shadow_faults
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Format, Scheme

_SUFFIXES: Final = (".yaml", ".yml")
_KINDS: Final = {Scheme: "scheme", Policy: "policy"}
Fault = tuple[Place, str]
"""A place in a file, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, its faults, and what it holds, with stand-ins where those are: None, where it is no scheme or policy."""

    path: Path
    found: Scheme | Policy | None = None
    faults: tuple[SchemeFault, ...] = ()
    document: Document | None = None

    @property
    def kind(self) -> str | None:
        """What the file was taken for; None where it holds no fields."""
        return None if self.document is None else _KINDS[kind_of(self.document.data)]

    @property
    def name(self) -> str | None:
        """The name that stands in the file."""
        name = None if self.document is None else self.document.data.get("name")
        return name if isinstance(name, str) else None

    def with_faults(self, faults: Iterable[Fault]) -> Checked:
        """The same with more faults, in the order of their lines."""
        if self.document is None:
            return self
        told = dict.fromkeys([*self.faults, *(self.document.fault(*fault) for fault in faults)])
        return replace(self, faults=tuple(in_order(told)))


def check(path: str | Path) -> Scheme | Policy:
    """The scheme or policy in a YAML file, if it would do with some model; SchemeFileError lists all its faults."""
    catalog = load_catalog()
    checked = _checked(_read(Path(path)), catalog, catalog.policies_beside(Path(path)))
    if checked.found is None or checked.faults:
        raise SchemeFileError(checked.faults)
    return checked.found


def check_files(paths: Iterable[str | Path]) -> tuple[Checked, ...]:
    """Each file as `check` sees it, where policies among them are known by name; of a folder its .yaml files."""
    catalog = load_catalog()
    read = [_read(path) for path in dict.fromkeys(file for path in paths for file in _files(Path(path)))]
    policies = {str(one.name): one.found for one in read if isinstance(one.found, Policy)}

    def finder(path: Path) -> Callable[[str], Policy]:
        beside = catalog.policies_beside(path)
        return lambda name: policies[name] if name in policies else beside(name)

    twins = _twins(read)
    return tuple(_checked(one, catalog, finder(one.path)).with_faults(twins.get(one.path, ())) for one in read)


def _files(path: Path) -> list[Path]:
    """The file, or the YAML files in a folder; the folder itself where it holds none, so that reading it is a fault."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and not file.is_dir()) or [path]


def _read(path: Path) -> Checked:
    """The file, with the faults that it has by itself."""
    try:
        document = read_document(path)
    except SchemeFileError as error:
        return Checked(path, faults=error.faults)
    found, faults = parse(document, kind_of(document.data))
    return Checked(path, found, tuple(faults), document)


def _twins(read: Sequence[Checked]) -> dict[Path, list[Fault]]:
    """Files that give one name to two things of a kind: whoever registers both cannot."""
    first: dict[tuple[str | None, str], Path] = {}
    faults: dict[Path, list[Fault]] = {}
    for one in read:
        if one.name is not None:
            other = first.setdefault((one.kind, one.name), one.path)
            if other != one.path:
                faults[one.path] = [(("name",), f"{one.kind} {shortened(one.name)} is in {other} too; rename one")]
    return faults


def _checked(read: Checked, catalog: Catalog, find_policy: Callable[[str], Policy]) -> Checked:
    if isinstance(read.found, Policy):
        return read.with_faults(_role_faults("rules", dict(enumerate(read.found.rules))))
    if isinstance(read.found, Scheme):
        return read.with_faults(_scheme_faults(read.found, catalog, find_policy, is_whole=not read.faults))
    return read.with_faults(())


def _scheme_faults(
    scheme: Scheme, catalog: Catalog, find_policy: Callable[[str], Policy], is_whole: bool
) -> Iterator[Fault]:
    backends = catalog.all_backends()
    own = {position: entry for position, entry in enumerate(scheme.policy) if isinstance(entry, Rule)}
    yield from _method_faults(scheme, backends, catalog.notes)
    yield from _role_faults("policy", own)
    named, faults = _named_policies(scheme, find_policy)
    yield from faults
    if is_whole and not faults:
        yield from ((place.split("."), told) for place, told in shadow_faults(scheme, find_policy))
        yield from _hand_out_faults(scheme, [*own.values(), *(rule for policy in named for rule in policy.rules)])
    yield from (((field,), told) for field, told in UNTAKEN.items() if getattr(scheme, field) is not None)


def _role_faults(field: str, rules: Mapping[int, Rule]) -> Iterator[Fault]:
    """Rules that would quantize nothing but what engines build unquantized, whatever the model."""
    for position, rule in rules.items():
        if rule.use != "keep" and rule.roles and set(rule.roles) <= UNQUANTIZED_ROLES:
            roles = " and ".join(dict.fromkeys(rule.roles))
            yield (field, position, "role"), f"engines build {roles} unquantized; use keep, or take the rule out"


def _named_policies(scheme: Scheme, find_policy: Callable[[str], Policy]) -> tuple[list[Policy], list[Fault]]:
    """The policies that a scheme names, with the names that nobody has, and rules that use formats it does not have."""
    found: list[Policy] = []
    faults: list[Fault] = []
    for position, entry in enumerate(scheme.policy):
        if isinstance(entry, str) and entry != NOBODYS:
            try:
                found.append(find_policy(entry))
                for number, rule in enumerate(found[-1].rules):
                    scheme.format_name(rule.use, f"{entry}[{number}]")
            except (SchemegenError, ValueError) as error:
                faults.append((("policy", position), str(error)))
    return found, faults


def _hand_out_faults(scheme: Scheme, rules: Sequence[Rule]) -> Iterator[Fault]:
    """A scheme that quantizes nothing whatever the model, and formats that no engine takes where rules use them."""
    used = {name: kinds for name in scheme.formats if (kinds := _kinds_of(scheme, name, rules))}
    if not used:
        yield ("policy",), "no rule uses a format, so that nothing would be quantized; a rule says use: and its name"
    for name, kinds in used.items():
        told = {kind: _unserved(scheme.formats[name], kind) for kind in kinds}
        if all(told.values()):
            yield ("formats", name), f"no engine takes it for {' or '.join(told)}: {told[kinds[0]]}"


def _kinds_of(scheme: Scheme, name: str, rules: Iterable[Rule]) -> list[Kind]:
    """What rules may use the format for."""
    using = [rule for rule in rules if scheme.format_name(rule.use, "") == name]
    reached = {role for role in Role for rule in using if any(rule.reaches(role, part) for part in Part)}
    tests = {
        Kind.EXPERTS: Role.ROUTED_EXPERT in reached,
        Kind.HEAD: Role.LM_HEAD in reached,
        Kind.LINEAR: bool(reached - {Role.ROUTED_EXPERT, Role.LM_HEAD}),
    }
    return [kind for kind, is_reached in tests.items() if is_reached]


def _unserved(format: Format, kind: Kind) -> str | None:
    """Why no engine takes the format in this use, whatever the shapes; None too where no storage holds it."""
    storage = storage_of(format)
    return unserved(Use(kind, format, storage, storage, frozenset(), frozenset(), frozenset({Part.TEXT})))


def _method_faults(scheme: Scheme, backends: Sequence[GuardedBackend], notes: Sequence[str]) -> Iterator[Fault]:
    """A method that no backend has or options that all refuse; formats that nothing stores or computes."""
    methods = dict(methods_of(backends))
    takers = [backend for backend in backends if methods.get(backend.name) == scheme.method.name]
    if not takers:
        unknown = UnknownNameError("method", scheme.method.name, set(methods.values()), notes)
        yield ("method", "name"), str(unknown)
    refused = {backend.name: _option_faults(backend, scheme) for backend in takers}
    if takers and all(refused.values()):
        yield from refused[takers[0].name]
    able = [backend for backend in takers if not refused[backend.name]] or takers
    for name, format in scheme.formats.items():
        if told := storage_fault(format) or _refusals(format, able):
            yield ("formats", name), told


def _option_faults(backend: GuardedBackend, scheme: Scheme) -> list[Fault]:
    try:
        told = [fault.partition(": ") for fault in backend.option_faults(scheme.method.options)]
    except PluginError as error:
        return [(("method",), str(error))]
    return [(("method", *field.split(".")), message) for field, _, message in told]


def _refusals(format: Format, backends: Sequence[GuardedBackend]) -> str | None:
    """Why none of the backends computes the format, or None where one does or there is none to ask."""
    refusals = {backend.name: refusal_of(backend, format) for backend in backends}
    if not refusals or not all(refusals.values()):
        return None
    # Backends that go by the same rules give the same reasons: each is told once.
    names = {reason: name for name, reason in reversed(refusals.items())}
    return "no backend takes it: " + "; ".join(f"{name} {reason}" for reason, name in names.items())
