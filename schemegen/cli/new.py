"""`schemegen new KIND NAME`: a working start to change."""

from __future__ import annotations

import shlex

import click

from schemegen.cli import options, render
from schemegen.cli.verbs import Verb


@click.command("new", cls=Verb)
@click.argument("kind", type=click.Choice(["plugin", "scheme"]))
@click.argument("name", callback=options.given)
@click.option(
    "-o",
    "--output",
    callback=options.given,
    metavar="DIR",
    help="The folder to make.  [default: ./schemegen-NAME for a plugin, ./NAME for a scheme]",
)
@options.as_json
def command(kind: str, name: str, output: str | None, as_json: bool) -> None:
    """Write a working start: a plugin or a scheme, with a test that passes.

    A plugin is a distribution that pip installs and schemegen then finds; it brings a scheme to change. A scheme alone
    is a YAML file, which every command takes by its path. Nothing that exists is touched.
    """
    from schemegen.catalog import load_catalog
    from schemegen.seal import argument
    from schemegen.starts import plugin_start, scheme_start, write_start

    start = (plugin_start if kind == "plugin" else scheme_start)(name, load_catalog())
    folder = write_start(start, output)
    if as_json:
        render.data({"folder": str(folder), "files": list(start.files), "commands": list(start.commands)})
        return
    shown = start.folder if output is None else output
    following = [f"cd {shlex.quote(argument(shown))}", *start.commands]
    render.text(*render.fields([("written", shown), ("files", list(start.files)), ("next", following)]))
