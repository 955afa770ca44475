"""It is found as any guest's distribution is."""

from __future__ import annotations

from schemegen.testing import check_plugin


def test_it_is_found_and_brings_its_names() -> None:
    check_plugin(
        "example",
        schemes=["example-w8a8"],
        policies=["example-keep-outer-experts"],
        backends=["example-int8"],
    )
