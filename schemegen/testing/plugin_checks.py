"""Whether a plugin is found where it is installed, works, and brings what its author thinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schemegen.catalog import Catalog, load_catalog
from schemegen.errors import VerificationError, shortened
from schemegen.plugins import Plugin


def check_plugin(
    name: str,
    *,
    schemes: Iterable[str] = (),
    policies: Iterable[str] = (),
    architectures: Iterable[str] = (),
    backends: Iterable[str] = (),
) -> None:
    """Hold the installed plugin of the entry point `name` to work without a fault and to bring just these names.

    VerificationError with every fault of it, and every name that is missing or not asked for.
    """
    wanted = {"scheme": schemes, "policy": policies, "architecture": architectures, "backend": backends}
    if findings := list(_findings(load_catalog(), name, wanted)):
        raise VerificationError([f"plugin {shortened(name)}: {finding}" for finding in findings])


def _findings(catalog: Catalog, name: str, wanted: Mapping[str, Iterable[str]]) -> Iterator[str]:
    faults = [failure.reason for failure in catalog.failures if failure.plugin == name]
    yield from faults
    plugin = next((plugin for plugin in catalog.plugins if plugin.name == name), None)
    if plugin is not None:
        yield from _differences(plugin, wanted)
    elif not faults:
        there = ", ".join(plugin.name for plugin in catalog.plugins)
        yield f"no installed distribution has an entry point of that name in the group schemegen; there are {there}"


def _differences(plugin: Plugin, wanted: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for kind, names in wanted.items():
        asked, brought = set(names), set(plugin.brings.get(kind, ()))
        yield from (f"brings no {kind} {shortened(missing)}" for missing in sorted(asked - brought))
        yield from (f"brings {kind} {extra}, which the test does not name" for extra in sorted(brought - asked))
