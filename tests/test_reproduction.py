"""An output says which plugins brought what it was made with, and is the same result whatever their version."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import schemegen
from schemegen import Scheme, UnsupportedError, api
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.catalog import Catalog, load_catalog
from schemegen.manifest import read_manifest
from schemegen.registry import Registry

MIX = Scheme.model_validate(
    {
        "schema_version": 1,
        "name": "acme-mix",
        "summary": "INT4 on experts",
        "formats": {"int4": {"num_bits": 4, "group_size": 32}},
        "policy": ["experts-only"],
    }
)
Guest = Callable[[str], None]


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Guest:
    """Call it with a version: a plugin of it brings scheme, policy and architecture; with none: there is none."""
    real = load_catalog

    def catalog(version: str) -> Catalog:
        found = real()
        families: Registry[schemegen.Architecture] = Registry("architecture", schemegen.Architecture)
        if version:
            found.schemes.add(MIX, origin=f"acme {version}")
            found.policies.add(
                found.policy("keep-mtp").model_copy(update={"name": "acme-keep"}), origin=f"acme {version}"
            )
            families.add(replace(QWEN3_5_MOE, name="acme-moe"), origin=f"acme {version}")
        return replace(found, architectures=families)

    return lambda version: monkeypatch.setattr(api, "load_catalog", lambda: catalog(version))


def test_what_a_plugin_brought_is_named(guest: Guest, sample_folder: Path, tmp_path: Path) -> None:
    guest("1.0")
    made = schemegen.apply("acme-mix", sample_folder, tmp_path / "out", policies=["acme-keep"])
    brought = {"architecture": "acme 1.0", "policy acme-keep": "acme 1.0", "scheme": "acme 1.0"}
    assert read_manifest(made.path).plugins == brought
    card = (made.path / "README.md").read_text()
    assert "Needs the plugin acme 1.0 (architecture, policy acme-keep, scheme)." in card
    note = "architecture acme-moe is a plugin's, and nobody here has looked up or tried if engines serve it"
    assert note in card
    assert any(line.startswith(note) for line in made.notes)
    assert schemegen.verify(made.path, sample_folder).checks
    guest("2.0")
    assert schemegen.apply("acme-mix", sample_folder, made.path, policies=["acme-keep"]).status == "unchanged"
    guest("")
    assert schemegen.verify(made.path).checks
    with pytest.raises(
        UnsupportedError, match=r"architecture 'acme-moe' came from the plugin 'acme 1\.0', which is not"
    ):
        schemegen.verify(made.path, sample_folder)


def test_what_ships_with_schemegen_needs_nothing(finished: Path) -> None:
    assert read_manifest(finished).plugins == {}
    assert "nobody here has looked up or tried" not in (finished / "README.md").read_text()


def test_a_lone_scheme_can_be_saved_from_the_manifest(sample_folder: Path, tmp_path: Path) -> None:
    made = schemegen.apply(MIX, sample_folder, tmp_path / "out")
    saved = tmp_path / "acme-mix.yaml"
    saved.write_text(json.dumps(json.loads((made.path / "schemegen.json").read_text())["scheme"]))
    assert schemegen.load_scheme(saved) == MIX
    assert schemegen.apply(saved, sample_folder, made.path).status == "unchanged"
