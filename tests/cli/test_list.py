"""`list`: every name with its origin, and broken plugins by name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from schemegen.catalog import load_catalog
from schemegen.errors import PluginError
from schemegen.plugins import Plugin

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

KINDS = {
    "schemes": "kimi-k2-int4",
    "policies": "keep-mtp",
    "architectures": "qwen3_5_moe",
    "backends": "native-rtn",
    "plugins": "schemegen.builtin",
}


ACME = Plugin("acme", "acme-schemes", "1.2", brings={"policy": ("a", "b"), "scheme": ("c", "d", "e", "f")}, seconds=2.5)
HALF = Plugin("half", "half-dist", "2", brings={"backend": ("half-rtn",)})


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that works, one that does not, and one of whose hooks one does not."""
    catalog = load_catalog()
    catalog = replace(
        catalog,
        plugins=(*catalog.plugins, ACME, HALF),
        failures=(
            PluginError("bad", "bad-dist", "0.1", "cannot be imported: no"),
            PluginError("half", "half-dist", "2", "schemegen_register_policies: OSError: no"),
        ),
    )
    monkeypatch.setattr("schemegen.catalog.load_catalog", lambda: catalog)


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
def test_every_kind_has_a_head_and_rows(cli: Cli, kind: str, name: str) -> None:
    done = cli("list", kind)
    head, *rows = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert head.split()[0] in ("name", "plugin")
    assert name in [row.split()[0] for row in rows]


def test_schemes_are_the_default(cli: Cli) -> None:
    assert cli("list") == cli("list", "schemes")


def test_schemes_come_with_formats_in_reading_order(cli: Cli) -> None:
    rows = json.loads(cli("list", "--json").out)
    names = [row["name"] for row in rows]
    schemes = load_catalog().schemes
    assert sorted(names) == schemes.names()
    assert [row["summary"] for row in rows] == [schemes.get(name).summary for name in names]
    assert {row["from"] for row in rows} == {"schemegen"}
    formats = {row["name"]: row["formats"] for row in rows}
    assert formats["kimi-k2-int4"] == "INT4 g32"
    assert formats["int4-fp8-mix"] == "INT4 g128; FP8 per channel, FP8 activations"
    told = [names.index(name) for name in ("w4a16-g32", "w4a16-g64", "w4a16-g128", "w8a16", "int4-int8-mix")]
    assert told == sorted(told)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("schemes", "plugins")])
def test_json_rows_are_those_of_the_registry(cli: Cli, kind: str) -> None:
    registry = getattr(load_catalog(), kind)
    assert json.loads(cli("list", kind, "--json").out) == [
        {"name": name, "from": registry.origin(name), "summary": registry.get(name).summary}
        for name in registry.names()
    ]


@pytest.mark.usefixtures("broken")
def test_a_broken_plugin_is_listed_with_the_reason(cli: Cli) -> None:
    head, builtin, *rows = cli("list", "plugins").out.splitlines()
    assert re.split("  +", head) == ["plugin", "distribution", "version", "state", "what it brings, or what is wrong"]
    assert builtin.split()[:5] == ["schemegen.builtin", "schemegen", "(built", "in)", "loaded"]
    assert re.search(r"\d+ schemes; \d+ policies; architecture.* qwen3_5_moe.*; backend native-rtn$", builtin)
    assert [re.split("  +", row) for row in rows] == [
        ["acme", "acme-schemes", "1.2", "loaded, 2.5 s", "policies a, b; 4 schemes"],
        ["half", "half-dist", "2", "failed in part", "backend half-rtn; schemegen_register_policies: OSError: no"],
        ["bad", "bad-dist", "0.1", "failed", "cannot be imported: no"],
    ]


@pytest.mark.usefixtures("broken")
def test_json_tells_all_that_a_plugin_brings(cli: Cli) -> None:
    builtin, acme, half, bad = json.loads(cli("list", "plugins", "--json").out)
    assert builtin["brings"]["scheme"] == list(dict.fromkeys(builtin["brings"]["scheme"]))
    assert set(builtin["brings"]["scheme"]) == set(load_catalog().schemes.names())
    assert acme == {
        "plugin": "acme",
        "distribution": "acme-schemes",
        "version": "1.2",
        "state": "loaded",
        "seconds": 2.5,
        "brings": {"policy": ["a", "b"], "scheme": ["c", "d", "e", "f"]},
        "faults": [],
    }
    assert (half["state"], half["faults"]) == ("failed in part", ["schemegen_register_policies: OSError: no"])
    assert (bad["state"], bad["brings"], bad["faults"]) == ("failed", {}, ["cannot be imported: no"])


@pytest.mark.usefixtures("broken")
def test_a_broken_plugin_is_mentioned_beside_other_lists(cli: Cli) -> None:
    done = cli("list")
    assert "kimi-k2-int4" in done.out
    assert done.err.splitlines()[0] == "note: plugin 'bad' of bad-dist 0.1: cannot be imported: no; it is left out"


@pytest.mark.usefixtures("broken")
def test_a_broken_plugin_is_mentioned_where_a_name_is_unknown(cli: Cli) -> None:
    assert "plugin 'bad' of bad-dist 0.1: cannot be imported: no" in cli("show", "bad-scheme").err


def test_an_unknown_kind_is_a_usage_error(cli: Cli) -> None:
    assert cli("list", "models").code == 2
