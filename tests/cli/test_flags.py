"""What every command takes is frozen here: knobs go into schemes, and a new flag needs a reason to be in this table."""

from __future__ import annotations

import click
import pytest

from schemegen.cli.verbs import VERBS, schemegen

FLAGS = {
    "apply": [
        "SCHEME",
        "MODEL",
        "-o --output",
        "--revision",
        "--policy",
        "--backend",
        "--device",
        "--jobs",
        "--overwrite",
        "--restart",
        "--base-model",
        "--unindexed",
        "--json",
    ],
    "plan": ["SCHEME", "MODEL", "--revision", "--policy", "--explain", "--json"],
    "inspect": ["MODEL", "--revision", "--names", "--json"],
    "verify": ["DIR", "--against", "--revision", "--jobs", "--json"],
    "list": ["KIND", "--json"],
    "show": ["NAME", "--from", "--revision", "--json"],
    "check": ["FILE...", "--schema", "--json"],
    "new": ["KIND", "NAME", "-o --output", "--json"],
}
DEFAULTS = {
    "apply": {"backend": "native-rtn", "unindexed": "refuse"},
    "list": {"kind": "schemes"},
}
CONTEXT = schemegen.make_context("schemegen", ["list"])


def spelled(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return (parameter.metavar or parameter.name or "").strip("[]").upper()
    return " ".join([*parameter.opts, *parameter.secondary_opts])


def test_the_table_covers_every_verb() -> None:
    assert list(FLAGS) == list(VERBS)
    assert [spelled(parameter) for parameter in schemegen.params] == ["--version"]


@pytest.mark.parametrize("verb", FLAGS)
def test_flags_are_frozen(verb: str) -> None:
    command = schemegen.get_command(CONTEXT, verb)
    assert command is not None
    assert [spelled(parameter) for parameter in command.params] == FLAGS[verb]
    with command.make_context(verb, [], parent=CONTEXT, resilient_parsing=True) as context:
        assert list(context.help_option_names) == ["-h", "--help"]


@pytest.mark.parametrize("verb", DEFAULTS)
def test_defaults_are_frozen(verb: str) -> None:
    command = schemegen.get_command(CONTEXT, verb)
    assert command is not None
    found = {str(parameter.name): parameter.get_default(CONTEXT) for parameter in command.params}
    assert {name: found[name] for name in DEFAULTS[verb]} == DEFAULTS[verb]


@pytest.mark.parametrize("verb", [verb for verb in FLAGS if "--jobs" in FLAGS[verb]])
@pytest.mark.parametrize("jobs", ["0", "-1", "two", "1.5"])
def test_jobs_are_at_least_one(verb: str, jobs: str) -> None:
    command = schemegen.get_command(CONTEXT, verb)
    assert command is not None
    with pytest.raises(click.BadParameter) as refused:
        command.make_context(verb, ["--jobs", jobs, "scheme", "model"], parent=CONTEXT)
    assert refused.value.param is not None
    assert refused.value.param.name == "jobs"
