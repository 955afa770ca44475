"""`schemegen list [KIND]`: everything that has a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from schemegen.cli import options, render
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.catalog import Catalog

NAMED: Final = ("schemes", "policies", "architectures", "backends")
PLUGINS: Final = "plugins"


@click.command("list", cls=Verb)
@click.argument("kind", metavar="[KIND]", type=click.Choice([*NAMED, PLUGINS]), default=NAMED[0])
@options.as_json
def command(kind: str, as_json: bool) -> None:
    """List the schemes, or another kind of names.

    KIND is schemes (the default), policies, architectures, backends or plugins. Beside each name stands where it comes
    from: schemegen itself, or a plugin's distribution and version. Schemes come with their formats: one format before
    mixes, few bits before many.
    """
    from schemegen.catalog import load_catalog

    catalog = load_catalog()
    rows = list(_ROWS.get(kind, _named)(catalog, kind))
    if as_json:
        render.data(rows)
        return
    head = list(rows[0]) if rows else []
    render.text(*render.table(head, [list(row.values()) for row in rows]))
    if kind != PLUGINS:
        for failure in catalog.failures:
            render.note(f"note: {failure}; it is left out")


def _named(catalog: Catalog, kind: str) -> Iterator[dict[str, str]]:
    registry: Any = getattr(catalog, kind)
    for found in registry:
        yield {"name": found.name, "from": registry.origin(found.name), "summary": found.summary}


def _schemes(catalog: Catalog, kind: str) -> Iterator[dict[str, str]]:
    from schemegen.formats.words import in_short, reading_order

    for scheme in sorted(catalog.schemes, key=reading_order):
        formats = "; ".join(map(in_short, scheme.formats.values()))
        origin = catalog.schemes.origin(scheme.name)
        yield {"name": scheme.name, "from": origin, "formats": formats, "summary": scheme.summary}


def _plugins(catalog: Catalog, kind: str) -> Iterator[dict[str, str]]:
    for plugin in catalog.plugins:
        yield _plugin(plugin.name, plugin.distribution, plugin.version, "loaded")
    for failure in catalog.failures:
        yield _plugin(failure.plugin, failure.distribution, failure.version, failure.reason)


def _plugin(name: str, distribution: str, version: str, state: str) -> dict[str, str]:
    return {"plugin": name, "distribution": distribution, "version": version or "(built in)", "state": state}


_ROWS: Final = {NAMED[0]: _schemes, PLUGINS: _plugins}
