"""Blame: what a plugin's author reads (tests/test_plugins.py has the kinds of fault)."""

from __future__ import annotations

import json

import pluggy
import pytest

from schemegen import hookspecs
from schemegen.blame import hook_names, misfit, reason_of
from schemegen.errors import SchemeFault, SchemeFileError, UnsupportedError


@pytest.fixture
def manager() -> pluggy.PluginManager:
    """A manager that knows the hooks."""
    found = pluggy.PluginManager(hookspecs.PROJECT)
    found.add_hookspecs(hookspecs)
    return found


def test_hooks_are_those_of_hookspecs(manager: pluggy.PluginManager) -> None:
    assert hook_names(manager) == sorted(name for name in vars(hookspecs) if name.startswith("schemegen_"))


def test_an_error_on_purpose_is_told_in_its_own_words(manager: pluggy.PluginManager) -> None:
    assert reason_of(manager, UnsupportedError("one\ntwo")) == "one; two"
    faults = [SchemeFault("a.yaml", "name", "is wrong", number) for number in (1, 2, 3)]
    assert reason_of(manager, SchemeFileError(faults[:1])) == "a.yaml:1: name: is wrong"
    many = "a.yaml:1: name: is wrong, and 2 more; schemegen check tells all"
    assert reason_of(manager, SchemeFileError(faults)) == many


def test_a_stray_exception_is_told_with_the_line_that_raised_it(manager: pluggy.PluginManager) -> None:
    with pytest.raises(ValueError, match="Expecting value") as caught:
        json.loads("x")
    assert reason_of(manager, caught.value).startswith("JSONDecodeError: Expecting value")
    assert reason_of(manager, caught.value).endswith(")")
    assert reason_of(manager, ValueError("x")) == "ValueError: x"


def test_modules_and_instances_can_be_plugins() -> None:
    assert misfit(json) is None
    assert misfit(json.JSONDecoder()) is None
    assert misfit(json.JSONDecoder) == "the class JSONDecoder; name a module, or an instance of a class"
    assert misfit(json.loads) == "the function loads; name a module, or an instance of a class"
    assert misfit(len) is not None
