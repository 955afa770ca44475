"""Whatever has a name is documented; each kind of gap is found, and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click
import pytest

import schemegen
from docs.writing import commands, environment, error_tree, examples, gaps, hooks, roles
from schemegen import hookspecs
from schemegen.architectures.base import Role
from schemegen.errors import SchemegenError
from schemegen.scheme import Scheme

Patch = pytest.MonkeyPatch
Key = TypeVar("Key")
Value = TypeVar("Value")


def without(table: Mapping[Key, Value], key: Key) -> dict[Key, Value]:
    return {name: value for name, value in table.items() if name != key}


def test_everything_is_documented() -> None:
    assert list(gaps.gaps()) == []


def _hook(patch: Patch) -> None:
    @hookspecs.hookspec
    def schemegen_register_oddities() -> None:
        pass

    patch.setattr(hookspecs, "schemegen_register_oddities", schemegen_register_oddities, raising=False)


def _hook_that_nobody_places(patch: Patch) -> None:
    patch.setattr(gaps, "BRINGS", without(hooks.BRINGS, "schemegen_register_schemes"))


def _verb(patch: Patch) -> None:
    patch.setattr(commands.command_of("list"), "help", None)


def _option(patch: Patch) -> None:
    option = next(found for found in commands.command_of("apply").params if found.name == "jobs")
    assert isinstance(option, click.Option)
    patch.setattr(option, "help", None)


def _error(patch: Patch) -> None:
    class OddError(SchemegenError):
        pass

    patch.setattr(gaps, "classes", lambda: [*error_tree.classes(), OddError])


def _example(patch: Patch) -> None:
    patch.setattr(gaps, "EXAMPLES", examples.EXAMPLES[1:])


def _public_name(patch: Patch) -> None:
    patch.setattr(schemegen, "__all__", [*schemegen.__all__, "oddity"])
    patch.setattr(schemegen, "oddity", lambda: None, raising=False)


def _name_that_is_gone(patch: Patch) -> None:
    patch.setattr(schemegen, "__all__", [name for name in schemegen.__all__ if name != "apply"])


def _field(patch: Patch) -> None:
    patch.setattr(Scheme.model_fields["reference"], "description", None)


def _role(patch: Patch) -> None:
    patch.setattr(gaps, "ROLES", without(roles.ROLES, Role.INDEXER))


def _variable(patch: Patch) -> None:
    patch.setattr(gaps, "VARIABLES", without(environment.VARIABLES, "SCHEMEGEN_CACHE"))


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        (_hook, "hook schemegen_register_oddities: no docstring"),
        (_hook_that_nobody_places, "hook schemegen_register_schemes: not in BRINGS of docs/writing/hooks.py"),
        (_verb, "command list: no help"),
        (_option, "command apply: option --jobs has no help"),
        (_error, "error OddError: no docstring"),
        (_error, "error OddError: not public in schemegen/__init__.py"),
        (_example, "error UnknownNameError: no example in docs/writing/examples.py"),
        (_public_name, "public name oddity: not in GROUPS of docs/writing/names.py"),
        (_public_name, "public name oddity: no docstring"),
        (_name_that_is_gone, "apply of GROUPS in docs/writing/names.py: no public name"),
        (_field, "field Scheme.reference: no description"),
        (_role, "role indexer: not in ROLES of docs/writing/roles.py"),
        (_variable, "environment variable SCHEMEGEN_CACHE: not in docs/writing/environment.py"),
    ],
)
def test_a_gap_is_named(monkeypatch: Patch, change: Callable[[Patch], None], gap: str) -> None:
    change(monkeypatch)
    assert gap in list(gaps.gaps())


def test_a_variable_that_no_source_reads_is_named(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text('NAME = "SCHEMEGEN_ODD"\n')
    found = list(gaps.variables(tmp_path))
    assert "environment variable SCHEMEGEN_ODD: not in docs/writing/environment.py" in found
    assert "environment variable SCHEMEGEN_CACHE: no source reads it" in found
