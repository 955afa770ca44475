"""Finds plugins, and collects what they register: a broken guest is named and skipped, a broken built-in is fatal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

import pluggy

from schemegen import hookspecs
from schemegen.errors import PluginError, SchemegenError
from schemegen.registry import Named, Registry

GROUP: Final = hookspecs.PROJECT
STRICT_VARIABLE: Final = "SCHEMEGEN_STRICT"
PLUGINS_VARIABLE: Final = "SCHEMEGEN_PLUGINS"
# A guest that calls sys.exit() must not end the program that merely looked for it.
GUEST_ERRORS: Final = (Exception, SystemExit)

T = TypeVar("T", bound=Named)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin: its entry point's name, the distribution that brings it (empty version: built in), and its object."""

    name: str
    distribution: str
    version: str
    implementation: object = None

    @property
    def builtin(self) -> bool:
        """Whether it ships with schemegen itself."""
        return not self.version

    @property
    def origin(self) -> str:
        """Distribution and version, as messages and lists show them."""
        return f"{self.distribution} {self.version}".strip()

    def error(self, reason: str) -> PluginError:
        """A PluginError that blames this plugin."""
        return PluginError(self.name, self.distribution, self.version or "(built in)", reason)


@dataclass(slots=True)
class Plugins:
    """The plugins found: `loaded` in order of registration, and a PluginError in `failures` for each fault."""

    manager: pluggy.PluginManager
    strict: bool
    loaded: list[Plugin] = field(default_factory=list)
    failures: list[PluginError] = field(default_factory=list)

    def fail(self, plugin: Plugin, reason: str, cause: BaseException | None = None) -> None:
        """Record a guest's fault; raise a built-in's, and in strict mode every one."""
        error = plugin.error(reason)
        if plugin.builtin or self.strict:
            raise error from cause
        self.failures.append(error)


def plugin_manager(builtins: Iterable[object] = ()) -> Plugins:
    """Register the built-in plugins, then load every guest of the entry-point group `schemegen`, by name.

    SCHEMEGEN_PLUGINS=off loads no guest; SCHEMEGEN_STRICT=1 raises the first fault, a PluginError.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    plugins = Plugins(manager, strict=os.environ.get(STRICT_VARIABLE, "") not in ("", "0"))
    for builtin in builtins:
        _register(plugins, Plugin(_name(builtin), hookspecs.PROJECT, "", builtin))
    if os.environ.get(PLUGINS_VARIABLE) != "off":
        guests = ((_guest(entry_point), entry_point) for entry_point in entry_points(group=GROUP))
        for guest, entry_point in sorted(guests, key=lambda pair: (pair[0].name, pair[0].distribution)):
            _load(plugins, guest, entry_point)
    return plugins


def collect(plugins: Plugins, hook_name: str, registry: Registry[T]) -> None:
    """Add what every plugin returns from the hook: all that one plugin returns or, at a fault, nothing of it."""
    for plugin in plugins.loaded:
        try:
            registry.add_all(_returned(plugins.manager, plugin, hook_name, registry.type), origin=plugin.origin)
        except GUEST_ERRORS as error:
            plugins.fail(plugin, f"{hook_name}: {_reason(plugins.manager, error)}", error)


def _name(builtin: object) -> str:
    return str(getattr(builtin, "__name__", type(builtin).__name__))


def _guest(entry_point: EntryPoint) -> Plugin:
    distribution = entry_point.dist
    if distribution is None:
        return Plugin(entry_point.name, "unknown distribution", "unknown version")
    return Plugin(entry_point.name, distribution.name, distribution.version or "unknown version")


def _load(plugins: Plugins, guest: Plugin, entry_point: EntryPoint) -> None:
    try:
        implementation = entry_point.load()
    except GUEST_ERRORS as error:
        plugins.fail(guest, f"cannot be imported: {_reason(plugins.manager, error)}", error)
    else:
        _register(plugins, replace(guest, implementation=implementation))


def _register(plugins: Plugins, plugin: Plugin) -> None:
    manager = plugins.manager
    if twin := next((other for other in plugins.loaded if _same(plugin, other)), None):
        plugins.fail(plugin, f"is plugin {twin.name!r} of {twin.origin} again; rename the entry point or remove one")
        return
    try:
        manager.register(plugin.implementation, plugin.name)
        manager.check_pending()
        if not manager.get_hookcallers(plugin.implementation):
            raise plugin.error(f"implements no hook; decorate functions with @hookimpl ({_hook_names(manager)})")
    except Exception as error:
        if manager.has_plugin(plugin.name):
            manager.unregister(name=plugin.name)
        plugins.fail(plugin, _reason(manager, error), error)
    else:
        plugins.loaded.append(plugin)


def _same(plugin: Plugin, other: Plugin) -> bool:
    return plugin.name == other.name or plugin.implementation is other.implementation


def _returned(manager: pluggy.PluginManager, plugin: Plugin, hook_name: str, type_: type[T]) -> Iterator[T]:
    """What this one plugin's implementations of the hook return, so that a fault has one owner."""
    for implementation in getattr(manager.hook, hook_name).get_hookimpls():
        if implementation.plugin is plugin.implementation:
            result = implementation.function()
            # A pydantic model is iterable, and so is a string: neither is a collection of models.
            if not isinstance(result, Iterable) or isinstance(result, (type_, str)):
                raise plugin.error(f"returned {type(result).__name__}; return an iterable of {type_.__name__}")
            yield from result


def _reason(manager: pluggy.PluginManager, error: BaseException) -> str:
    if isinstance(error, PluginError):
        return error.reason
    if isinstance(error, SchemegenError):
        return str(error)
    text = " ".join(str(error).split())
    if isinstance(error, pluggy.PluginValidationError):
        # pluggy ends with the repr of the module, which the message has named already.
        return f"{text.partition(' in plugin ')[0]}; hooks are {_hook_names(manager)}"
    return f"{type(error).__name__}: {text}"


def _hook_names(manager: pluggy.PluginManager) -> str:
    return ", ".join(sorted(name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None)))
