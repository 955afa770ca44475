"""What is wrong with a scheme whatever the model: names, methods, formats, and rules that never decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemegen.architectures.base import Part, Role
from schemegen.backends.guard import GuardedBackend
from schemegen.backends.lacks import Lack
from schemegen.backends.offers import UNTAKEN, methods_of, refusal_of
from schemegen.checking.known import Known
from schemegen.checking.reading import Checked, Fault
from schemegen.checking.rules import role_fault, role_faults
from schemegen.engines.limits import unserved
from schemegen.engines.uses import Kind, Use
from schemegen.errors import PlanError, PluginError, UnknownNameError
from schemegen.formats import storage_fault, storage_of
from schemegen.planner.rules import resolve_rules, shadow_faults
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Format, Scheme


@dataclass(slots=True)
class _Policies:
    """The policies that a scheme names, by name, and what is wrong with them; `whole` where all are there and sound."""

    found: dict[str, Policy] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    whole: bool = True


def scheme_faults(checked: Checked, scheme: Scheme, known: Known) -> tuple[list[Fault], list[Fault]]:
    """Faults, and remarks: what only an installed package lacks is no fault of a file."""
    faults, remarks = _computed(checked, scheme, known)
    own = {position: entry for position, entry in enumerate(scheme.policy) if isinstance(entry, Rule)}
    named = _policies(checked, scheme, known)
    faults += [*role_faults("policy", own), *named.faults]
    if named.whole and not checked.faults and not named.faults:
        faults += _list_faults(scheme, named.found)
        rules = [*own.values(), *(rule for policy in named.found.values() for rule in policy.rules)]
        faults += _hand_out_faults(scheme, rules)
    faults += [((name,), told) for name, told in UNTAKEN.items() if getattr(scheme, name) is not None]
    return faults, remarks


def _policies(checked: Checked, scheme: Scheme, known: Known) -> _Policies:
    policies = _Policies()
    for position, entry in enumerate(scheme.policy):
        if isinstance(entry, str) and ("policy", position) not in checked.stand_ins:
            policy, fault, is_faulty = known.policy(entry, checked.path)
            policies.whole &= policy is not None and not is_faulty
            told = [fault] if fault else [] if policy is None else _misfits(checked, scheme, entry, policy)
            policies.faults += [(("policy", position), message) for message in told]
            if policy is not None:
                policies.found[entry] = policy
    return policies


def _misfits(checked: Checked, scheme: Scheme, entry: str, policy: Policy) -> list[str]:
    """What of a policy does not go with a scheme that names it: the first format that it lacks, and roles kept.

    No format lacks where all of them are stand-ins.
    """
    told = []
    for number, rule in enumerate(policy.rules):
        label = f"{entry}[{number}]"
        if fault := role_fault(rule):
            told.append(f"{label}: {fault}")
        if ("formats",) in checked.stand_ins:
            continue
        try:
            scheme.format_name(rule.use, label)
        except ValueError as error:
            return [*told, str(error)]
    return told


def _list_faults(scheme: Scheme, policies: Mapping[str, Policy]) -> list[Fault]:
    """Entries that others shadow, and policies that labels do not tell apart."""
    found = [(_place(place), told) for place, told in shadow_faults(scheme, policies.__getitem__)]
    if found:
        return found
    try:
        resolve_rules(scheme, policies.__getitem__)
    except PlanError as error:
        return [(("policy",), line) for line in str(error).splitlines()]
    return []


def _place(dotted: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdecimal() else part for part in dotted.split("."))


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


def _computed(checked: Checked, scheme: Scheme, known: Known) -> tuple[list[Fault], list[Fault]]:
    """A method that no backend has or options that all refuse; formats that nothing stores or computes."""
    backends, notes = known.catalog.all_backends(), known.catalog.notes
    methods = dict(methods_of(backends))
    takers = [backend for backend in backends if methods.get(backend.name) == scheme.method.name]
    faults, remarks = list[Fault](), list[Fault]()
    if not takers:
        unknown = UnknownNameError("method", scheme.method.name, set(methods.values()), notes)
        faults.append((("method", "name"), str(unknown)))
    refused = {backend.name: _option_faults(backend, scheme.method.options) for backend in takers}
    if takers and all(refused.values()):
        faults += refused[takers[0].name]
    able = [backend for backend in takers if not refused[backend.name]] or takers
    for name, format in _own_formats(checked, scheme).items():
        refusals = {backend.name: refusal_of(backend, format) for backend in able}
        if told := storage_fault(format) or _told(refusals):
            lacks = storage_fault(format) is None and any(isinstance(refusal, Lack) for refusal in refusals.values())
            (remarks if lacks else faults).append((("formats", name), told))
    return faults, remarks


def _own_formats(checked: Checked, scheme: Scheme) -> dict[str, Format]:
    """The formats that stand in the file: not those that stand in for others."""
    given = checked.document.data.get("formats") if checked.document else None
    names = [name for name in given if ("formats", name) not in checked.stand_ins] if isinstance(given, dict) else []
    return {name: scheme.formats[name] for name in names if name in scheme.formats}


def _option_faults(backend: GuardedBackend, options: Mapping[str, Any]) -> list[Fault]:
    try:
        told = [fault.partition(": ") for fault in backend.option_faults(options)]
    except PluginError as error:
        return [(("method",), str(error))]
    return [(("method", *_place(name)), message) for name, _, message in told]


def _told(refusals: Mapping[str, str | None]) -> str | None:
    """Why none of the backends computes a format, or None where one does or there is none to ask."""
    if not refusals or not all(refusals.values()):
        return None
    # Backends that go by the same rules give the same reasons: each is told once.
    names = {reason: name for name, reason in reversed([*refusals.items()])}
    return "no backend takes it: " + "; ".join(f"{name} {reason}" for reason, name in names.items())
