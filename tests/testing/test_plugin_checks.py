"""Whether a plugin is there, works and brings its names."""

from __future__ import annotations

import pytest

from schemegen import VerificationError
from schemegen.catalog import Catalog, load_catalog
from schemegen.plugins import Plugin
from schemegen.testing import check_plugin, plugin_checks


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> None:
    """`acme` brings a scheme and a policy, and failed in its hook of backends; `broken` failed altogether."""
    real = load_catalog()
    acme = Plugin("acme", "schemegen-acme", "1.0", brings={"scheme": ("acme-int4",), "policy": ("acme-keep",)})
    failures = (acme.error("schemegen_register_backends: raised KeyError"), Plugin("broken", "b", "2").error("no hook"))
    plugins = (*real.plugins, acme)
    catalog = Catalog(real.schemes, real.policies, real.architectures, real.backends, plugins, failures)
    monkeypatch.setattr(plugin_checks, "load_catalog", lambda: catalog)


@pytest.mark.usefixtures("guest")
def test_every_fault_missing_name_and_name_too_many_is_told() -> None:
    with pytest.raises(VerificationError) as caught:
        check_plugin("acme", schemes=["acme-int4", "acme-int8"], backends=["acme-rtn"])
    assert list(caught.value.findings) == [
        "plugin 'acme': schemegen_register_backends: raised KeyError",
        "plugin 'acme': brings no scheme 'acme-int8'",
        "plugin 'acme': brings policy acme-keep, which the test does not name",
        "plugin 'acme': brings no backend 'acme-rtn'",
    ]
    with pytest.raises(VerificationError) as caught:
        check_plugin("broken", schemes=["broken-int4"])
    assert list(caught.value.findings) == ["plugin 'broken': no hook"]


@pytest.mark.usefixtures("guest")
def test_one_that_is_not_installed_is_told_with_those_that_are() -> None:
    with pytest.raises(VerificationError, match=r"plugin 'amce': no installed distribution has an entry.*acme$"):
        check_plugin("amce")


def test_one_that_brings_just_its_names_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    real = load_catalog()
    acme = Plugin("acme", "schemegen-acme", "1.0", brings={"scheme": ("acme-int4",)})
    catalog = Catalog(real.schemes, real.policies, real.architectures, real.backends, (acme,), ())
    monkeypatch.setattr(plugin_checks, "load_catalog", lambda: catalog)
    check_plugin("acme", schemes=["acme-int4"])
