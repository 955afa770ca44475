"""Finds plugins, and collects what they register: a broken guest is named and skipped, a broken built-in is fatal."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from typing import Final, TypeVar

import pluggy

from schemegen import hookspecs
from schemegen.blame import misfit, reason_of
from schemegen.errors import PluginError, plain, shortened
from schemegen.registry import Named, Registry

GROUP: Final = hookspecs.PROJECT
STRICT_VARIABLE: Final = "SCHEMEGEN_STRICT"
PLUGINS_VARIABLE: Final = "SCHEMEGEN_PLUGINS"
_OFF: Final = ("0", "off", "no", "false")
_NAMELESS: Final = "unknown distribution"
_VERSIONLESS: Final = "unknown version"

T = TypeVar("T", bound=Named)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin: its entry point's name, the distribution that brings it (empty version: built in), and its object.

    `brings` are the names it has registered, by kind; `seconds` is what its import took.
    """

    name: str
    distribution: str
    version: str
    implementation: object = None
    brings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def builtin(self) -> bool:
        """Whether it ships with schemegen itself."""
        return not self.version

    @property
    def origin(self) -> str:
        """Distribution and version, as messages and lists show them."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def module(self) -> str:
        """The module that the implementation is or comes from; empty before it is imported."""
        found = self.implementation
        return str(getattr(found, "__name__", type(found).__module__)) if found is not None else ""

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
    plugins = Plugins(manager, strict=bool(os.environ.get(STRICT_VARIABLE)) and not _is_off(STRICT_VARIABLE))
    for builtin in builtins:
        plugin = Plugin(_name(builtin), hookspecs.PROJECT, "", builtin)
        with _blamed(plugins, plugin):
            _register(plugins, plugin)
    if not are_plugins_off():
        guests = [(_plugin_of(found.name, found.dist), found) for found in entry_points(group=GROUP)]
        for guest, entry_point in sorted(guests, key=lambda pair: (pair[0].name, pair[0].distribution)):
            _load(plugins, guest, entry_point)
    return plugins


def collect(plugins: Plugins, hook_name: str, registry: Registry[T]) -> None:
    """Add what every plugin returns from the hook: all that one plugin returns or, at a fault, nothing of it."""
    for position, plugin in enumerate(plugins.loaded):
        with _blamed(plugins, plugin, f"{hook_name}: "):
            found = _returned(plugins.manager, plugin, hook_name, registry.type)
            if names := registry.add_all(found, origin=plugin.origin):
                plugins.loaded[position] = replace(plugin, brings={**plugin.brings, registry.kind: names})


def _name(builtin: object) -> str:
    return str(getattr(builtin, "__name__", type(builtin).__name__))


def are_plugins_off() -> bool:
    """Whether the environment says to load no guest."""
    return _is_off(PLUGINS_VARIABLE)


def _is_off(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in _OFF


def _plugin_of(name: str, distribution: Distribution | None) -> Plugin:
    """The plugin as far as its distribution says what it is."""
    told: dict[str, str | None] = {}
    if distribution is not None:
        # It may have lost its file of metadata.
        with contextlib.suppress(Exception):
            told = {key: distribution.metadata[key] for key in ("Name", "Version")}
    return Plugin(name, told.get("Name") or _NAMELESS, told.get("Version") or _VERSIONLESS)


def _load(plugins: Plugins, guest: Plugin, entry_point: EntryPoint) -> None:
    began = time.perf_counter()
    with _blamed(plugins, guest):
        implementation = _imported(guest, entry_point)
        _register(plugins, replace(guest, implementation=implementation, seconds=time.perf_counter() - began))


def _imported(guest: Plugin, entry_point: EntryPoint) -> object:
    if not entry_point.pattern.match(entry_point.value):
        raise guest.error(f"its entry point is {shortened(entry_point.value)}; name a module, or module:object")
    try:
        return entry_point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = reason_of(error, entry_point.module)
        raise guest.error(f"{plain(entry_point.value)} cannot be imported: {reason}") from error


def _register(plugins: Plugins, plugin: Plugin) -> None:
    manager = plugins.manager
    if fault := misfit(plugin.implementation):
        raise plugin.error(f"its entry point names {fault}")
    if twin := next((other for other in plugins.loaded if _same(plugin, other)), None):
        raise plugin.error(f"is plugin {twin.name!r} of {twin.origin} again; rename the entry point or remove one")
    try:
        _check_hooks(manager, plugin)
    except BaseException:
        manager.unregister(name=plugin.name)
        raise
    plugins.loaded.append(plugin)


def _check_hooks(manager: pluggy.PluginManager, plugin: Plugin) -> None:
    manager.register(plugin.implementation, plugin.name)
    manager.check_pending()
    if not manager.get_hookcallers(plugin.implementation):
        names = ", ".join(hookspecs.HOOKS)
        raise plugin.error(f"implements no hook; decorate functions with schemegen's @hookimpl ({names})")
    for name in hookspecs.HOOKS:
        if any(own.wrapper or own.hookwrapper for own in _implementations(manager, plugin, name)):
            raise plugin.error(f"{name} is a wrapper, and those are not taken; return what the plugin adds")


def _implementations(manager: pluggy.PluginManager, plugin: Plugin, hook_name: str) -> list[pluggy.HookImpl]:
    """This one plugin's implementations of the hook, so that a fault has one owner."""
    found = getattr(manager.hook, hook_name).get_hookimpls()
    return [implementation for implementation in found if implementation.plugin is plugin.implementation]


def _same(plugin: Plugin, other: Plugin) -> bool:
    return plugin.name == other.name or plugin.implementation is other.implementation


def _returned(manager: pluggy.PluginManager, plugin: Plugin, hook_name: str, type_: type[T]) -> Iterator[T]:
    for implementation in _implementations(manager, plugin, hook_name):
        result = implementation.function()
        # A pydantic model is iterable, and so is a string: neither is a collection of models.
        if not isinstance(result, Iterable) or isinstance(result, (type_, str)):
            raise plugin.error(f"returned {type(result).__name__}; return an iterable of {type_.__name__}")
        yield from result


@contextlib.contextmanager
def _blamed(plugins: Plugins, plugin: Plugin, what: str = "") -> Iterator[None]:
    """Run a plugin's code: what it raises is its fault, sys.exit() too, and the working folder stays the user's."""
    try:
        with _same_folder():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        cause = error.__cause__ if isinstance(error, PluginError) else error
        plugins.fail(plugin, f"{what}{reason_of(error, plugin.module)}", cause)


@contextlib.contextmanager
def _same_folder() -> Iterator[None]:
    """Go back to the working folder where the code has left it: paths that a user gives are told from there."""
    try:
        folder = Path.cwd()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if Path.cwd() != folder:
                os.chdir(folder)
