"""Arguments and options that several verbs take."""

from __future__ import annotations

from typing import TypeVar

import click

Value = TypeVar("Value")


def given(ctx: click.Context, param: click.Parameter, value: Value) -> Value:
    """Callback: the value, unless it is empty text, which as a path would mean the working folder."""
    if value == "" or (isinstance(value, tuple) and "" in value):
        raise click.BadParameter("must not be empty", ctx, param)
    return value


scheme = click.argument("scheme", callback=given)
model = click.argument("model", callback=given)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
jobs = click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Worker threads.  [default: one for each CPU]"
)
revision = click.option(
    "--revision", callback=given, metavar="REV", help="Branch, tag or commit of a Hub id.  [default: main]"
)
policies = click.option(
    "--policy",
    "policies",
    callback=given,
    multiple=True,
    metavar="NAME|FILE",
    help="Put this policy's rules in front of the scheme's; may be given more than once.",
)
explain = click.option(
    "--explain",
    callback=given,
    metavar="GLOB",
    help="Tell of the tensors that GLOB matches what each becomes and which rule decides.",
)
