"""Blame: what a plugin's author reads (tests/test_plugins.py has the kinds of fault)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pluggy
import pytest
from pydantic import ValidationError

from schemegen import hookspecs
from schemegen.blame import Guard, misfit, reason_of
from schemegen.errors import CheckpointError, PluginError, SchemeFault, SchemeFileError, UnsupportedError

Run = Callable[..., BaseException]


@pytest.fixture
def manager() -> pluggy.PluginManager:
    """A manager that knows the hooks."""
    found = pluggy.PluginManager(hookspecs.PROJECT)
    found.add_hookspecs(hookspecs)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs code as that of a module in a file, and gives what it raised."""

    def raised(file: Path, module: str, code: str) -> BaseException:
        path = tmp_path / file
        with pytest.raises(Exception) as caught:  # noqa: PT011
            exec(compile(code, path, "exec"), {"__name__": module})
        return caught.value

    return raised


def test_hooks_are_those_of_hookspecs(manager: pluggy.PluginManager) -> None:
    specified = [name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None)]
    assert sorted(specified) == list(hookspecs.HOOKS)
    assert len(hookspecs.HOOKS) == 4


def test_an_error_on_purpose_is_told_in_its_own_words() -> None:
    assert reason_of(UnsupportedError("one\ntwo")) == "one; two"
    faults = [SchemeFault("a.yaml", "name", "is wrong", number) for number in (1, 2, 3)]
    assert reason_of(SchemeFileError(faults[:1])) == "a.yaml:1: name: is wrong"
    assert reason_of(SchemeFileError(faults)) == "a.yaml:1: name: is wrong, and 2 more; schemegen check tells all"


def test_a_stray_exception_is_told_with_the_line_that_raised_it(run: Run) -> None:
    error = run("acme.py", "acme", "import json\n\njson.loads('x')\n")
    told = "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    assert reason_of(error, "acme") == f"{told} (acme.py, line 3)"
    line = json.JSONDecoder.raw_decode.__code__
    assert reason_of(error).startswith(f"{told} ({Path(line.co_filename).name}, line ")
    assert reason_of(ValueError("x")) == "ValueError: x"


def test_a_folder_beside_schemegens_own_is_a_plugins(run: Run) -> None:
    """`schemegen new plugin acme` names the package schemegen_acme, which may lie beside schemegen."""
    beside = Path(hookspecs.__file__).parents[1] / "schemegen_acme" / "plugin.py"
    assert reason_of(run(beside, "elsewhere", "\n1 // 0"), "acme").endswith(" (plugin.py, line 2)")
    own = Path(hookspecs.__file__).parent / "made_up.py"
    assert "made_up.py" not in reason_of(run(own, "elsewhere", "\n1 // 0"), "acme")


def test_what_pydantic_refuses_is_told_by_field_and_message(run: Run) -> None:
    code = """
from schemegen.scheme import Scheme
Scheme(schema_version=1, name="a", summary="s", formats={"int4": {"num_bits": 99}}, policy=3)
"""
    error = run("plugin.py", "schemegen_acme.plugin", code)
    assert isinstance(error, ValidationError)
    told = "Scheme.formats.int4.weights.num_bits: input should be less than or equal to 16, and 1 more"
    assert reason_of(error, "schemegen_acme") == f"{told} (plugin.py, line 3)"


def _refused(manager: pluggy.PluginManager, code: str) -> pluggy.PluginValidationError:
    module = ModuleType("acme")
    exec(f"from schemegen.hookspecs import hookimpl\n@hookimpl\n{code}", vars(module))
    with pytest.raises(pluggy.PluginValidationError) as caught:
        _register(manager, module)
    return caught.value


def _register(manager: pluggy.PluginManager, module: ModuleType) -> None:
    manager.register(module, "acme")
    manager.check_pending()


def test_pluggys_words_are_those_that_are_looked_for(manager: pluggy.PluginManager) -> None:
    """Where a release of pluggy words these otherwise, blame.py has to follow."""
    unknown = _refused(manager, "def schemegen_register_scheme(): ...")
    assert reason_of(unknown) == ("unknown hook 'schemegen_register_scheme'; did you mean schemegen_register_schemes?")
    manager.unregister(name="acme")
    asking = _refused(manager, "def schemegen_register_schemes(config): ...")
    assert reason_of(asking) == (
        "schemegen_register_schemes(config) asks for {'config'}, which the hook does not give; take the argument out"
    )


@pytest.mark.parametrize("error", [KeyError("w"), SystemExit(3), RecursionError()])
def test_a_guard_names_what_it_guards(error: BaseException) -> None:
    with (
        pytest.raises(PluginError, match=r"plugin 'backend a' of acme 1\.0: call raised \w+") as caught,
        Guard("backend a", "acme 1.0").blamed("call"),
    ):
        raise error
    assert (caught.value.distribution, caught.value.version) == ("acme", "1.0")


def test_a_guard_lets_pass_what_may_be_raised() -> None:
    guard = Guard("backend a", "schemegen")
    for error in (CheckpointError("bad"), MemoryError(), KeyboardInterrupt()):
        with pytest.raises(type(error)), guard.blamed("call"):
            raise error
    with (
        pytest.raises(PluginError, match=r"of schemegen \(built in\): call raised CheckpointError: bad"),
        guard.blamed("call", (PluginError,)),
    ):
        raise CheckpointError("bad")


def test_modules_and_instances_can_be_plugins() -> None:
    assert misfit(json) is None
    assert misfit(json.JSONDecoder()) is None
    assert misfit(json.JSONDecoder) == "the class JSONDecoder; name a module, or an instance of a class"
    assert misfit(json.loads) == "the function loads; name a module, or an instance of a class"
    assert misfit(len) is not None
