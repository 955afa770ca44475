"""The table of verbs, the group that imports them late, and what all of them share."""

from __future__ import annotations

import contextlib
import difflib
from importlib import import_module
from typing import Any, Final

import click

from schemegen.cli import render
from schemegen.cli.exits import TOLD, message

#: Verb (and module of this package) and its short help, so that `--help` imports none of them.
VERBS: Final = {
    "apply": "Quantize MODEL by SCHEME into a new folder",
    "plan": "Show what SCHEME makes of every tensor of MODEL, from headers alone",
    "inspect": "Show what MODEL is made of",
    "verify": "Check that the checkpoint in DIR is what it says it is",
    "list": "List the schemes, or another kind of names",
    "show": "Print a scheme, policy, architecture or backend in full",
    "check": "Check scheme and policy files, and tell all their faults at once",
    "new": "Write a working start: a plugin or a scheme, with a test that passes",
}

HELP_NAMES: Final = ("-h", "--help")


class Verb(click.Command):
    """A command whose results alone go to stdout; asked for JSON, it also tells its errors as JSON there."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error goes on to the exit code."""
        try:
            with render.results_alone():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except TOLD as error:
            if ctx.params.get("as_json"):
                # A stdout that takes no more may be the very error.
                with contextlib.suppress(OSError):
                    render.data({"error": {"kind": type(error).__name__, "message": message(error)}})
            raise


class Verbs(click.Group):
    """A group that knows its verbs by table and imports one when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, imported now."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"schemegen.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their short help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the first argument names; a usage error with the nearest names otherwise."""
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            near = difflib.get_close_matches(name, VERBS)
            ctx.fail(f"unknown command {name!r}: " + (f"did you mean {' or '.join(near)}?" if near else _known()))
        return super().resolve_command(ctx, args)


def _known() -> str:
    return f"known are {', '.join(VERBS)}"


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from schemegen import __version__

        render.text(f"schemegen {__version__}")
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": HELP_NAMES})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def schemegen() -> None:
    """Apply a named quantization scheme to a Hugging Face checkpoint.

    MODEL is a Hub id, a folder or sample:NAME, SCHEME a name from `schemegen list` or a YAML file.
    """
