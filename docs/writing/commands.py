"""reference/cli.md: every verb's help as `-h` prints it, exit codes, environment variables."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

import click

from docs.writing.environment import OF_THE_HUB, VARIABLES
from docs.writing.markdown import block, sentence, table
from schemegen.cli.verbs import VERBS, schemegen

#: Columns of text in a terminal of 80.
_WIDTH: Final = 78
EXIT_CODES: Final = {
    0: "all is done; for `apply` also when the same result was there already",
    1: "an error: one message on stderr, which starts with `error:`; with `--json` an object on stdout, too",
    2: "wrong usage: an unknown command, a missing argument, a value of the wrong kind",
    130: "stopped by Ctrl-C; the same command goes on where it was",
    141: "whoever read the output went away, such as `head`",
    143: "stopped by SIGTERM; the same command goes on where it was",
}
_INTRODUCTION: Final = """\
# Command line

Results go to stdout, progress and remarks to stderr, plain where that is no terminal. Every command takes `-h`, and
`--json`, with which it prints JSON instead of words: an object, or for `list` and `inspect --names` an array.

MODEL is a Hub id, a folder or `sample:qwen3.6-moe`; SCHEME is a name or the path of a YAML file. A name that nobody
registered is an error with the nearest names."""


def page() -> Iterator[str]:
    """The page."""
    yield from (_INTRODUCTION, "", *_list_of_verbs(), "", "## schemegen", "", *block("text", help_of()))
    for verb in VERBS:
        yield from (f"## {verb}", "", *block("text", help_of(verb)))
    yield from ("## Exit codes", "")
    yield from table(("code", "meaning"), ((f"`{code}`", told) for code, told in EXIT_CODES.items()))
    yield from ("", "## Environment variables", "")
    yield from table(("variable", "meaning"), ((f"`{name}`", told) for name, told in VARIABLES.items()))
    yield from ("", "The client of the Hub reads variables of its own, which mean here what they mean there:", "")
    yield from table(("variable", "meaning"), ((f"`{name}`", told) for name, told in OF_THE_HUB.items()))


def help_of(verb: str | None = None) -> str:
    """What `-h` prints, 80 columns wide; of the whole program without a verb."""
    above = click.Context(schemegen, info_name="schemegen", terminal_width=_WIDTH, **dict(schemegen.context_settings))
    if verb is None:
        return schemegen.get_help(above)
    return _help(command_of(verb), above, verb)


def command_of(verb: str) -> click.Command:
    """The command of a verb."""
    command: click.Command = import_module(f"schemegen.cli.{verb}").command
    return command


def _help(command: click.Command, above: click.Context, name: str) -> str:
    """A command's help, and of a group that of its commands below."""
    context = click.Context(command, above, info_name=name, terminal_width=_WIDTH)
    below = getattr(command, "commands", {})
    return "\n\n\n".join([command.get_help(context), *(_help(found, context, name) for name, found in below.items())])


def _list_of_verbs() -> Iterator[str]:
    return table(
        ("command", "what it does"), ((f"[`{verb}`](#{verb})", sentence(told)) for verb, told in VERBS.items())
    )
