"""The group of verbs: its table is what the commands say, and it imports a verb no sooner than it must."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import schemegen.cli
from schemegen.cli import main, render
from schemegen.cli.verbs import VERBS, Verb
from schemegen.cli.verbs import schemegen as group

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Start

SHARED = {"__init__", "exits", "explained", "figures", "lines", "options", "render", "spelling", "verbs"}
CONTEXT = click.Context(group)


def command(verb: str) -> click.Command:
    found = group.get_command(CONTEXT, verb)
    assert found is not None
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_the_table_says_what_the_command_says(verb: str) -> None:
    assert command(verb).get_short_help_str(limit=1_000).rstrip(".") == VERBS[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_its_errors_in_json(verb: str) -> None:
    assert isinstance(command(verb), Verb)
    assert command(verb).name == verb
    assert "as_json" in {parameter.name for parameter in command(verb).params}


def test_every_module_is_a_verb_or_shared() -> None:
    modules = {path.stem for path in Path(schemegen.cli.__file__).parent.glob("*.py")}
    assert modules == SHARED | set(VERBS)


def test_a_name_outside_the_table_is_no_command() -> None:
    assert group.get_command(CONTEXT, "render") is None


@pytest.mark.parametrize(("given", "meant"), [("aply", "apply"), ("lst", "list"), ("verfy", "verify")])
def test_a_slip_gets_a_suggestion(cli: Cli, given: str, meant: str) -> None:
    done = cli(given, "x")
    assert (done.code, done.out) == (2, "")
    assert f"unknown command '{given}': did you mean {meant}?" in done.err


def test_an_unlikely_command_gets_the_list(cli: Cli) -> None:
    done = cli("zzz")
    assert done.code == 2
    assert f"unknown command 'zzz': known are {', '.join(VERBS)}" in done.err


def test_an_unknown_option_of_the_group_is_a_usage_error(cli: Cli) -> None:
    done = cli("--zzz")
    assert done.code == 2
    assert "--zzz" in done.err


def test_the_group_help_lists_every_verb(cli: Cli) -> None:
    done = cli("--help")
    assert (done.code, done.err) == (0, "")
    assert [verb for verb, short in VERBS.items() if short not in " ".join(done.out.split())] == []


def test_no_arguments_are_a_call_for_help(cli: Cli) -> None:
    assert cli() == cli("-h") == cli("--help")


def test_version(cli: Cli) -> None:
    from importlib.metadata import version

    assert cli("--version").out == f"schemegen {version('schemegen')}\n"


def test_python_m_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["somewhere/__main__.py", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("schemegen", run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("schemegen ")


LATE = {"numpy", "numba", "pydantic", "rich", "torch", "yaml", "pluggy", "jinja2", "safetensors"}


@pytest.mark.parametrize(
    ("args", "late"),
    [(["--help"], LATE), (["apply", "--help"], LATE), (["list"], LATE - {"pydantic", "yaml", "pluggy"})],
    ids=["help", "help of a verb", "list"],
)
def test_what_a_command_does_not_need_is_not_imported(start: Start, args: list[str], late: set[str]) -> None:
    code = f"""
import sys
try:
    main({args!r})
finally:
    print(*sys.modules, file=sys.stderr)
"""
    process = start(code)
    out, modules = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out
    assert late & set(modules.decode().split()) == set()


def test_the_help_of_the_group_imports_no_verb(start: Start) -> None:
    _, modules = start("import sys\ntry: main(['-h'])\nfinally: print(*sys.modules, file=sys.stderr)").communicate()
    loaded = set(modules.decode().split())
    assert "schemegen.cli.verbs" in loaded
    assert {f"schemegen.cli.{verb}" for verb in VERBS} & loaded == set()


def test_asked_for_json_stdout_takes_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(name: str) -> dict[str, Any]:
        print("a word of a guest")
        return {"name": name}

    monkeypatch.setattr("schemegen.cli.check._print_schema", lambda kind: render.data(noisy(kind)))
    with pytest.raises(SystemExit):
        main(["check", "--schema", "scheme", "--json"])
    captured = capsys.readouterr()
    assert (json.loads(captured.out), captured.err) == ({"name": "scheme"}, "a word of a guest\n")
