"""`schemegen list [KIND]`: everything that has a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from schemegen.cli import options, render
from schemegen.cli.verbs import Verb
from schemegen.errors import plain

if TYPE_CHECKING:
    from schemegen.catalog import Catalog

_SCHEMES: Final = "schemes"
_PLUGINS: Final = "plugins"
_PLUGIN_HEAD: Final = ("plugin", "distribution", "version", "state", "what it brings, or what is wrong")
_BUILT_IN: Final = "(built in)"
#: Seconds from which on an import is worth a word: every command waits for it.
_SLOW: Final = 1.0
#: More names of one kind are shown as their number.
_MOST_NAMED: Final = 3


def _named(registry: Any) -> Iterator[dict[str, str]]:
    for found in registry:
        yield {"name": found.name, "from": registry.origin(found.name), "summary": found.summary}


def _schemes(catalog: Catalog) -> Iterator[dict[str, str]]:
    from schemegen.formats.words import in_short, reading_order

    for scheme in sorted(catalog.schemes, key=reading_order):
        formats = "; ".join(map(in_short, scheme.formats.values()))
        origin = catalog.schemes.origin(scheme.name)
        yield {"name": scheme.name, "from": origin, "formats": formats, "summary": scheme.summary}


def _plugins(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """A row for each plugin; one that is loaded may have failed in a hook, and brings what its other hooks gave."""
    faults: dict[tuple[str, str, str], list[str]] = {}
    for failure in catalog.failures:
        faults.setdefault((failure.plugin, failure.distribution, failure.version), []).append(failure.reason)
    for plugin in catalog.plugins:
        key = plugin.name, plugin.distribution, plugin.version or _BUILT_IN
        own = faults.pop(key, [])
        failed = "failed in part" if plugin.brings else "failed"
        yield _plugin(key, failed if own else "loaded", plugin.brings, own, plugin.seconds)
    for key, reasons in faults.items():
        yield _plugin(key, "failed", {}, reasons)


def _plugin(
    key: tuple[str, str, str],
    state: str,
    brings: Mapping[str, Sequence[str]],
    faults: Sequence[str],
    seconds: float = 0.0,
) -> dict[str, Any]:
    name, distribution, version = key
    row = {"plugin": name, "distribution": distribution, "version": version, "state": state}
    return {**row, "seconds": round(seconds, 3), "brings": brings, "faults": faults}


#: What each list shows, from the catalog.
_ROWS: Final[Mapping[str, Callable[[Catalog], Iterable[dict[str, Any]]]]] = {
    _SCHEMES: _schemes,
    "policies": lambda catalog: _named(catalog.policies),
    "architectures": lambda catalog: _named(catalog.architectures),
    "backends": lambda catalog: _named(catalog.backends),
    _PLUGINS: _plugins,
}


@click.command("list", cls=Verb)
@click.argument("kind", metavar="[KIND]", type=click.Choice(list(_ROWS)), default=_SCHEMES)
@options.as_json
def command(kind: str, as_json: bool) -> None:
    """List the schemes, or another kind of names.

    KIND is schemes (the default), policies, architectures, backends or plugins. Beside each name stands where it comes
    from: schemegen itself, or a plugin's distribution and version. Schemes come with their formats: one format before
    mixes, few bits before many. Plugins come with what they bring and, where they failed, why.
    """
    from schemegen.catalog import load_catalog

    catalog = load_catalog()
    rows: list[dict[str, Any]] = list(_ROWS[kind](catalog))
    if as_json:
        render.data(rows)
        return
    if kind == _PLUGINS:
        render.text(*render.table(_PLUGIN_HEAD, [_plugin_cells(row) for row in rows]))
        return
    head = list(rows[0]) if rows else []
    render.text(*render.table(head, [list(row.values()) for row in rows]))
    for failure in catalog.failures:
        render.note(f"note: {failure}; it is left out")


def _plugin_cells(row: dict[str, Any]) -> list[str]:
    """A plugin's row as text: what it brings, and what is wrong with it, in the last column, which wraps."""
    slow = f", {row['seconds']:.1f} s" if row["seconds"] >= _SLOW else ""
    told = [*(_counted(kind, names) for kind, names in row["brings"].items()), *row["faults"]]
    cells = [plain(row[name]) for name in ("plugin", "distribution", "version", "state")]
    return [*cells[:3], cells[3] + slow, "; ".join(told)]


def _counted(kind: str, names: Sequence[str]) -> str:
    """Names of one kind, or their number where they are many."""
    plural = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    if len(names) > _MOST_NAMED:
        return f"{len(names)} {plural}"
    return f"{kind if len(names) == 1 else plural} {', '.join(names)}"
