"""Which names a plugin and a scheme may have, and what is advised instead of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schemegen import load_scheme, load_schemes
from schemegen.catalog import Catalog, load_catalog
from schemegen.errors import UnsupportedError
from schemegen.plugins import Plugin
from schemegen.starts import plugin_start, scheme_start, write_start
from schemegen.testing import cases, check_case


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.mark.parametrize("name", ["acme", "acme-quant", "a1", "class", "3d"])
def test_plugins_have_the_normal_form_of_package_indexes(catalog: Catalog, name: str) -> None:
    module = f"schemegen_{name.replace('-', '_')}"
    assert f"src/{module}/__init__.py" in plugin_start(name, catalog).files
    assert module.isidentifier()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Acme.Quant", "'Acme.Quant' cannot name a plugin; .*; did you mean acme-quant?"),
        ("acme_quant", "did you mean acme-quant?"),
        ("acme--quant-", "did you mean acme-quant?"),
        ("é", "did you mean e?"),
        ("…", "single dashes between them$"),
        ("../acme", "did you mean acme?"),
        ("a\nb", r"'a\\nb' cannot name a plugin"),
        ("schemegen-acme", "schemegen- is put in front of 'schemegen-acme' once more; did you mean acme?"),
        ("a" * 61, "too long to name a plugin; take at most 60 characters"),
        ("schemegen.builtin", "did you mean schemegen-builtin?"),
    ],
)
def test_other_names_of_plugins_are_refused_with_advice(catalog: Catalog, name: str, told: str) -> None:
    with pytest.raises(UnsupportedError, match=told):
        plugin_start(name, catalog)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Acme INT4", "'Acme INT4' cannot name a scheme; .*; did you mean acme-int4?"),
        ("acme.yaml", "did you mean acme?"),
        ("-", "with a letter or digit first$"),
        ("w4a16-g32", r"scheme 'w4a16-g32' is taken by schemegen; choose .*schemegen show w4a16-g32 prints it"),
    ],
)
def test_other_names_of_schemes_are_refused_with_advice(catalog: Catalog, name: str, told: str) -> None:
    with pytest.raises(UnsupportedError, match=told):
        scheme_start(name, catalog)


def test_a_plugin_that_is_there_keeps_its_name(catalog: Catalog) -> None:
    guest = Plugin("acme", "acme-schemes", "1.2")
    with pytest.raises(UnsupportedError, match=r"plugin 'acme' is taken by acme-schemes 1\.2; choose another name"):
        plugin_start("acme", replace(catalog, plugins=(*catalog.plugins, guest)))


@pytest.mark.parametrize("name", ["null", "on", "yes", "123", "1.5", "1_0", "0x1f", "2001-01-01", "1e5", "acme"])
def test_names_that_yaml_would_take_for_something_else_are_text(catalog: Catalog, name: str, tmp_path: Path) -> None:
    folder = write_start(scheme_start(name, catalog), tmp_path / "new")
    assert load_scheme(folder / f"{name}.yaml").name == name
    for case in cases(folder / "cases"):
        check_case(case)


def test_names_of_plugins_that_are_numbers_are_text_too(catalog: Catalog, tmp_path: Path) -> None:
    folder = write_start(plugin_start("123", catalog), tmp_path / "new")
    (scheme,) = load_schemes(folder / "src" / "schemegen_123" / "schemes")
    (case,) = cases(folder / "tests" / "cases")
    check_case(case, scheme)
