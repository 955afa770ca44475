"""Arguments and options that several verbs take."""

from __future__ import annotations

from typing import Any

import click


class Given(click.ParamType):
    """Text that is not empty: an empty path would mean the working folder."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself, or a usage error."""
        return str(value) if value else self.fail("must not be empty", param, ctx)


GIVEN = Given()

scheme = click.argument("scheme", type=GIVEN)
model = click.argument("model", type=GIVEN)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
jobs = click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Worker threads.  [default: one for each CPU]"
)
policies = click.option(
    "--policy",
    "policies",
    type=GIVEN,
    multiple=True,
    metavar="NAME|FILE",
    help="Put this policy's rules in front of the scheme's; may be given more than once.",
)
