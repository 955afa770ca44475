"""It is found as any guest's distribution is."""

from __future__ import annotations

from importlib.metadata import version

from schemegen.catalog import load_catalog


def test_every_name_comes_from_this_distribution() -> None:
    catalog = load_catalog()
    assert catalog.failures == ()
    origin = f"schemegen-example {version('schemegen-example')}"
    assert catalog.schemes.origin("example-w8a8") == origin
    assert catalog.policies.origin("example-keep-outer-experts") == origin
    assert catalog.backends.origin("example-int8") == origin
