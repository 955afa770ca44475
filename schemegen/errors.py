"""The errors schemegen raises on purpose.

SchemegenError
├── UnknownNameError      a scheme, policy, architecture, backend, sample or tensor name nobody registered
├── DuplicateNameError    two origins register one name
├── PluginError           a guest is broken
├── SchemeFileError       a scheme or policy file says something it may not
├── UnsupportedError      understood, but not offered
├── CheckpointError       the source is damaged, hostile or incomplete
├── PlanError             scheme and model do not go together
├── OutputError           the output cannot be written, or is another run's
└── VerificationError     an output is not what it says it is

A message starts in lower case, names the thing, and says what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_MAX_NAME: Final = 80
_MAX_TEXT: Final = 300
_MAX_FAULTS: Final = 20
#: More names are no help in a message.
_MAX_KNOWN: Final = 8
#: By kind of name, which lists show them all.
_LISTS: Final = {
    "scheme": "schemes",
    "policy": "policies",
    "architecture": "architectures",
    "backend": "backends",
    "name": "[schemes|policies|architectures|backends]",
}


def shortened(name: str) -> str:
    """A name in quotes for a message, cut where it is longer than 80 characters."""
    return repr(name) if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]!r}…"


def escaped(text: str) -> str:
    """A text with escapes for what cannot be seen, which would move a cursor or the rest of a line."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def plain(text: str) -> str:
    """A stranger's text for a message: one line, control characters as escapes, cut after 300 characters."""
    line = " ".join(text[: 2 * _MAX_TEXT].split())
    told = escaped(line)
    return told if len(told) <= _MAX_TEXT else f"{told[:_MAX_TEXT]}…"


def raised(error: BaseException) -> str:
    """A stranger's exception for a message: its type and what it says, where it can say something."""
    try:
        told = plain(str(error))
    except Exception:
        told = "its text cannot be had"
    return f"{plain(type(error).__name__)}: {told}" if told else plain(type(error).__name__)


class SchemegenError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback and exits with 1."""


class UnknownNameError(SchemegenError):
    """A name nobody registered: its kind, the name, the nearest known names, and notes such as failed plugins.

    `cutoff` is how like the name, from 0 to 1, a known one must be to be suggested.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str] = (), notes: Sequence[str] = (), cutoff: float = 0.6
    ) -> None:
        names = sorted(known)
        self.kind = kind
        self.name = name
        self.suggestions = difflib.get_close_matches(name[:_MAX_NAME], names, n=3, cutoff=cutoff)
        super().__init__("; ".join([_unknown(kind, name, names, self.suggestions), *notes]))


def _unknown(kind: str, name: str, names: Sequence[str], suggestions: Sequence[str]) -> str:
    head = f"unknown {kind} {shortened(name)}"
    if suggestions:
        return f"{head}: did you mean {' or '.join(suggestions)}?"
    if not names:
        return f"{head}: none is registered"
    if len(names) > _MAX_KNOWN and kind in _LISTS:
        return f"{head}: schemegen list {_LISTS[kind]} shows the {len(names)} known"
    rest = len(names) - _MAX_KNOWN
    return f"{head}: known are {', '.join(names[:_MAX_KNOWN])}" + (f" and {rest} more" if rest > 0 else "")


class DuplicateNameError(SchemegenError):
    """Two origins register the same name of one kind."""

    def __init__(self, kind: str, name: str, first: str, second: str) -> None:
        self.kind = kind
        self.name = name
        self.origins = (first, second)
        twice = f"twice by {first}; take one out"
        both = f"twice: by {first} and by {second}; rename one or uninstall one"
        super().__init__(f"{kind} {name!r} is registered {twice if first == second else both}")


class PluginError(SchemegenError):
    """A guest cannot be loaded or breaks a hook's contract: plugin, distribution and version, and what is wrong."""

    def __init__(self, plugin: str, distribution: str, version: str, reason: str) -> None:
        self.plugin = plugin
        self.distribution = distribution
        self.version = version
        self.reason = reason
        super().__init__(f"plugin {shortened(plugin)} of {plain(f'{distribution} {version}')}: {reason}")


@dataclass(frozen=True, slots=True)
class SchemeFault:
    """One fault in a scheme or policy file: file, dotted field (may be empty), message, and the line if it has one."""

    file: str
    field: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.field, self.message) if part)


class SchemeFileError(SchemegenError):
    """A scheme or policy file is not valid: every fault found is in `faults`, the first 20 a line each."""

    def __init__(self, faults: Sequence[SchemeFault]) -> None:
        self.faults = tuple(faults)
        lines = [str(fault) for fault in self.faults[:_MAX_FAULTS]]
        if rest := self.faults[_MAX_FAULTS:]:
            lines.append(f"and {len(rest)} more faults")
        super().__init__("\n".join(lines))

    @property
    def in_short(self) -> str:
        """The first fault in one line, and how many more there are."""
        rest = len(self.faults) - 1
        return f"{self.faults[0]}" + (f", and {rest} more; schemegen check tells all" if rest else "")


class UnsupportedError(SchemegenError):
    """The request is understood, but this version, backend or architecture does not offer it."""


class CheckpointError(SchemegenError):
    """The source checkpoint is damaged, hostile or incomplete: the fault, and the advice that is for a folder only."""

    def __init__(self, fault: str, advice: str = "") -> None:
        self.fault = fault
        super().__init__(f"{fault}; {advice}" if advice else fault)


class PlanError(SchemegenError):
    """Scheme and model do not go together; found from headers, before a byte is written."""


class OutputError(SchemegenError):
    """The output cannot be written, or what stands there belongs to another run."""


class VerificationError(SchemegenError):
    """A checkpoint is not what its manifest and its source say: every finding, a line each."""

    def __init__(self, findings: Sequence[str]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(self.findings))
