"""What there is and no page tells: each as a sentence that names it, and says where to tell it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

import schemegen
from docs.writing.commands import command_of
from docs.writing.environment import VARIABLES
from docs.writing.error_tree import classes
from docs.writing.examples import EXAMPLES
from docs.writing.fields import MODELS
from docs.writing.hooks import BRINGS, hooks
from docs.writing.names import GROUPS, INTERNAL, PLAIN, TESTING, errors
from docs.writing.roles import PARTS, ROLES
from schemegen.architectures.base import Part, Role
from schemegen.builtin import schemegen_register_policies
from schemegen.cli.verbs import VERBS
from schemegen.data import PACKAGE

_VARIABLE: Final = re.compile(r"SCHEMEGEN_[A-Z]+(?:_[A-Z]+)*")


def gaps() -> Iterator[str]:
    """Everything that is not documented."""
    yield from (*_hooks(), *_commands(), *_errors(), *_names(), *_testing(), *_files(), *_words(), *variables(PACKAGE))


def _hooks() -> Iterator[str]:
    for name, hook in hooks().items():
        if not hook.__doc__:
            yield f"hook {name}: no docstring"
        if name not in BRINGS:
            yield f"hook {name}: not in BRINGS of docs/writing/hooks.py"


def _commands() -> Iterator[str]:
    for verb in VERBS:
        yield from _command(f"command {verb}", command_of(verb))


def _command(name: str, command: click.Command) -> Iterator[str]:
    if not command.help:
        yield f"{name}: no help"
    options = [option for option in command.params if isinstance(option, click.Option)]
    yield from (f"{name}: option {option.opts[0]} has no help" for option in options if not option.help)
    for below, found in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {below}", found)


def _errors() -> Iterator[str]:
    told, public = {example.error for example in EXAMPLES}, schemegen.__all__
    for error in classes():
        if not vars(error).get("__doc__"):
            yield f"error {error.__name__}: no docstring"
        if error not in told:
            yield f"error {error.__name__}: no example in docs/writing/examples.py"
        if error.__name__ not in public:
            yield f"error {error.__name__}: not public in schemegen/__init__.py"


def _names() -> Iterator[str]:
    grouped = {name for names in GROUPS.values() for name in names} | set(errors())
    for name in schemegen.__all__:
        if name not in grouped:
            yield f"public name {name}: not in GROUPS of docs/writing/names.py"
        if name not in PLAIN and not getattr(schemegen, name).__doc__:
            yield f"public name {name}: no docstring"
    for name, hidden in INTERNAL.items():
        found = getattr(schemegen, name, None)
        yield from (f"{name}.{member} of INTERNAL: no such member" for member in hidden if not hasattr(found, member))
    gone = sorted(grouped - {*schemegen.__all__})
    yield from (f"{name} of GROUPS in docs/writing/names.py: no public name" for name in gone)


def _testing() -> Iterator[str]:
    if find_spec(TESTING):
        module = import_module(TESTING)
        yield from (f"{TESTING}.{name}: no docstring" for name in module.__all__ if not getattr(module, name).__doc__)


def _files() -> Iterator[str]:
    for model in MODELS:
        for name, found in model.model_fields.items():
            if not found.description:
                yield f"field {model.__name__}.{name}: no description"
    yield from (f"policy {policy.name}: no summary" for policy in schemegen_register_policies() if not policy.summary)


def _words() -> Iterator[str]:
    yield from (f"role {role}: not in ROLES of docs/writing/roles.py" for role in Role if role not in ROLES)
    yield from (f"part {part}: not in PARTS of docs/writing/roles.py" for part in Part if part not in PARTS)


def variables(package: Path) -> Iterator[str]:
    """The environment variables that a package's sources name and the table does not, and the other way round."""
    found = {name for path in package.rglob("*.py") for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))}
    for name in sorted(found ^ {*VARIABLES}):
        fault = "not in docs/writing/environment.py" if name in found else "no source reads it"
        yield f"environment variable {name}: {fault}"
