"""Plugins from real distributions on the path: good ones, and one for each way to be broken."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from types import SimpleNamespace

import pytest

from schemegen.errors import PluginError
from schemegen.hookspecs import hookimpl
from schemegen.plugins import PLUGINS_VARIABLE, STRICT_VARIABLE, Plugins, collect, plugin_manager
from schemegen.registry import Registry

HOOK = "schemegen_register_schemes"
HEAD = """
from schemegen.hookspecs import hookimpl
from spice_rack import Spice
"""
GOOD = """
@hookimpl
def schemegen_register_schemes():
    return [Spice("cumin"), Spice("salt")]
"""
POLICIES = """
@hookimpl
def schemegen_register_policies():
    return [Spice("mild")]
"""

Install = Callable[..., None]


@dataclass(frozen=True)
class Spice:
    """What the plugins register."""

    name: str


class Builtin:
    """A built-in plugin."""

    @hookimpl
    def schemegen_register_schemes(self) -> list[Spice]:
        """One spice."""
        return [Spice("pepper")]


def _entry_points(site: Path, group: str) -> list[EntryPoint]:
    """Those of the distributions in one folder: what else is installed beside schemegen is nobody's here."""
    return [point for found in distributions(path=[str(site)]) for point in found.entry_points.select(group=group)]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution with one entry point into a folder on the path; no other guest is in sight."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setitem(sys.modules, "spice_rack", SimpleNamespace(Spice=Spice))
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr("schemegen.plugins.entry_points", lambda group: _entry_points(site, group))
    monkeypatch.delenv(STRICT_VARIABLE, raising=False)
    monkeypatch.delenv(PLUGINS_VARIABLE, raising=False)
    before = set(sys.modules)

    def write(plugin: str, source: str, version: str = "1.0", target: str | None = None) -> None:
        (site / f"{plugin}_plugin.py").write_text(HEAD + source)
        info = site / f"{plugin}_dist-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {plugin}-dist\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[schemegen]\n{plugin} = {target or plugin + '_plugin'}\n")

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def gather(plugins: Plugins, hook_name: str = HOOK) -> Registry[Spice]:
    """The registry after one hook."""
    registry = Registry("spice", Spice)
    collect(plugins, hook_name, registry)
    return registry


def only_failure(plugins: Plugins) -> PluginError:
    """The one failure there is."""
    (failure,) = plugins.failures
    return failure


def test_builtins_and_guests_come_through_the_same_hook(install: Install) -> None:
    install("acme", GOOD, version="1.2")
    plugins = plugin_manager([Builtin()])
    registry = gather(plugins)
    assert registry.names() == ["cumin", "pepper", "salt"]
    assert registry.origin("pepper") == "schemegen"
    assert registry.origin("salt") == "acme-dist 1.2"
    assert plugins.failures == []
    assert [(p.name, p.distribution, p.version, p.builtin) for p in plugins.loaded] == [
        ("Builtin", "schemegen", "", True),
        ("acme", "acme-dist", "1.2", False),
    ]


def test_a_call_makes_a_new_manager(install: Install) -> None:
    install("acme", GOOD)
    first, second = plugin_manager(), plugin_manager()
    assert first.manager is not second.manager
    assert gather(first).names() == gather(second).names() == ["cumin", "salt"]


def test_each_hook_takes_its_own(install: Install) -> None:
    install("acme", GOOD + POLICIES)
    plugins = plugin_manager()
    assert gather(plugins, "schemegen_register_policies").names() == ["mild"]
    assert gather(plugins, "schemegen_register_backends").names() == []


LOAD_FAULTS = {
    "raises at import": (
        "import no_such_module_anywhere",
        r"bad_plugin cannot be imported: ModuleNotFoundError: No module named .* \(bad_plugin\.py, line 4\)",
    ),
    "is no Python": ("def broken(:", r"cannot be imported: SyntaxError: .*\(bad_plugin\.py, line 4\)"),
    "exits at import": ("import sys; sys.exit(3)", r"cannot be imported: SystemExit: 3 \(bad_plugin\.py, line 4\)"),
    "stops everything": (
        "class Stop(BaseException): pass\nraise Stop('now')",
        r"cannot be imported: Stop: now \(bad_plugin\.py, line 5\)",
    ),
    "has no words": (
        "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute",
        r"cannot be imported: Mute: its text cannot be had \(bad_plugin\.py, line 6\)",
    ),
    "speaks in colours": (
        "raise ValueError('\\x1b[31mred\\n' + 'x' * 999)",
        r"cannot be imported: ValueError: \\x1b\[31mred x{280,}… \(bad_plugin\.py, line 4\)",
    ),
    "asks for an argument": (
        "@hookimpl\ndef schemegen_register_schemes(config):\n    return []",
        r"^schemegen_register_schemes\(config\) asks for {'config'}, which the hook does not give; take ",
    ),
    "misspells a hook": (
        GOOD + "@hookimpl\ndef schemegen_register_scheme():\n    return []",
        r"^unknown hook 'schemegen_register_scheme'; did you mean schemegen_register_schemes\?$",
    ),
    "makes a hook up": (
        GOOD + "@hookimpl\ndef spices():\n    return []",
        "^unknown hook 'spices'; hooks are .*schemegen_register_schemes$",
    ),
    "forgets the decorator": (
        "def schemegen_register_schemes():\n    return []",
        "implements no hook; decorate functions with schemegen's @hookimpl",
    ),
}


@pytest.mark.parametrize(("source", "words"), LOAD_FAULTS.values(), ids=LOAD_FAULTS)
def test_a_guest_that_cannot_be_loaded_is_skipped_and_named(install: Install, source: str, words: str) -> None:
    install("bad", source, version="0.3")
    install("good", GOOD)
    plugins = plugin_manager([Builtin()])
    assert [plugin.name for plugin in plugins.loaded] == ["Builtin", "good"]
    assert not plugins.manager.has_plugin("bad")
    failure = only_failure(plugins)
    assert (failure.plugin, failure.distribution, failure.version) == ("bad", "bad-dist", "0.3")
    assert re.search(words, failure.reason)
    assert gather(plugins).names() == ["cumin", "pepper", "salt"]


def test_a_missing_attribute_is_named(install: Install) -> None:
    install("bad", GOOD, target="bad_plugin:Missing")
    assert "bad_plugin:Missing cannot be imported: AttributeError: " in only_failure(plugin_manager()).reason


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("Rack", "its entry point names the class Rack; name a module, or an instance of a class"),
        ("schemegen_register_schemes", "its entry point names the function schemegen_register_schemes; name a module"),
    ],
)
def test_an_entry_point_names_a_module_or_an_instance(install: Install, target: str, words: str) -> None:
    rack = "\nclass Rack:\n    @hookimpl\n    def schemegen_register_schemes(self):\n        return [Spice('salt')]\n"
    install("bad", GOOD + rack, target=f"bad_plugin:{target}")
    assert words in only_failure(plugin_manager()).reason
    install("good", GOOD + rack + "rack = Rack()", target="good_plugin:rack")
    assert gather(plugin_manager()).names() == ["salt"]


def test_two_distributions_may_not_share_a_plugin_name(install: Install) -> None:
    install("acme", GOOD)
    install("other", GOOD, target="other_plugin\nacme = other_plugin")
    plugins = plugin_manager()
    assert [(plugin.name, plugin.distribution) for plugin in plugins.loaded] == [
        ("acme", "acme-dist"),
        ("other", "other-dist"),
    ]
    assert "is plugin 'acme' of acme-dist 1.0 again" in str(only_failure(plugins))


def test_one_module_under_two_names_is_one_plugin(install: Install) -> None:
    install("acme", GOOD, target="acme_plugin\nzebra = acme_plugin")
    plugins = plugin_manager()
    assert [plugin.name for plugin in plugins.loaded] == ["acme"]
    assert only_failure(plugins).plugin == "zebra"


CALL_FAULTS = {
    "raises": ("raise OSError('no disk')", "OSError: no disk"),
    "raises half way": ("yield Spice('salt')\n    raise OSError('no disk')", "OSError: no disk"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "returns nothing": ("pass", "returned NoneType; return an iterable of Spice"),
    "returns one object": ("return Spice('salt')", "returned Spice; return an iterable of Spice"),
    "returns a string": ("return 'salt'", "returned str; return an iterable of Spice"),
    "returns another type": ("return [Spice('salt'), 7]", "a spice must be a Spice, not int 7"),
    "returns a class": ("return [Spice]", "not the class Spice"),
    "returns a bad name": ("return [Spice('salt'), Spice('Sea Salt')]", "'Sea Salt' cannot name a spice"),
    "takes a built-in's name": (
        "return [Spice('salt'), Spice('pepper')]",
        "spice 'pepper' is registered twice: by schemegen and by bad-dist 0.3",
    ),
    "takes a guest's name": ("return [Spice('cumin')]", "by acme-dist 1.0 and by bad-dist 0.3"),
    "repeats itself": ("return [Spice('salt'), Spice('salt')]", "registered twice by bad-dist 0.3; take one out"),
}


@pytest.mark.parametrize(("body", "words"), CALL_FAULTS.values(), ids=CALL_FAULTS)
def test_a_hook_that_fails_is_undone_as_a_whole(install: Install, body: str, words: str) -> None:
    install("acme", "@hookimpl\ndef schemegen_register_schemes():\n    return [Spice('cumin')]")
    install("bad", POLICIES + f"@hookimpl\ndef schemegen_register_schemes():\n    {body}\n", version="0.3")
    plugins = plugin_manager([Builtin()])
    assert plugins.failures == []
    assert gather(plugins).names() == ["cumin", "pepper"]
    failure = only_failure(plugins)
    assert (failure.plugin, failure.distribution, failure.version) == ("bad", "bad-dist", "0.3")
    assert failure.reason.startswith(f"{HOOK}: ")
    assert words in failure.reason
    assert gather(plugins, "schemegen_register_policies").names() == ["mild"], "its other hooks still count"


def test_strict_makes_a_load_fault_fatal(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("bad", "import no_such_module_anywhere")
    monkeypatch.setenv(STRICT_VARIABLE, "0")
    assert len(plugin_manager().failures) == 1
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with pytest.raises(PluginError, match=r"plugin 'bad' of bad-dist 1\.0") as caught:
        plugin_manager()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_strict_makes_a_call_fault_fatal(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("bad", "@hookimpl\ndef schemegen_register_schemes():\n    return [7]")
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    plugins = plugin_manager()
    with pytest.raises(PluginError, match=r"plugin 'bad' of bad-dist 1\.0: schemegen_register_schemes"):
        gather(plugins)


def test_guests_can_be_turned_off(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("acme", GOOD)
    install("bad", "import no_such_module_anywhere")
    monkeypatch.setenv(PLUGINS_VARIABLE, "off")
    plugins = plugin_manager([Builtin()])
    assert gather(plugins).names() == ["pepper"]
    assert plugins.failures == []


class Raising:
    """A built-in whose hook raises."""

    @hookimpl
    def schemegen_register_schemes(self) -> list[Spice]:
        """Nothing but an error."""
        raise OSError("data missing")


class Misspelt:
    """A built-in that implements a hook that is none."""

    @hookimpl
    def schemegen_register_spices(self) -> list[Spice]:
        """Never called."""
        return []


@pytest.mark.usefixtures("install")
def test_a_broken_builtin_is_fatal() -> None:
    with pytest.raises(PluginError, match=r"'Raising' of schemegen \(built in\): .*OSError: data missing"):
        gather(plugin_manager([Raising()]))
    with pytest.raises(PluginError, match="unknown hook 'schemegen_register_spices'"):
        plugin_manager([Misspelt()])
