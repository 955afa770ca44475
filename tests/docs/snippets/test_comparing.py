"""What a page may say of an output, and what it may not."""

from __future__ import annotations

import pytest

from docs.snippets.comparing import difference


@pytest.mark.parametrize(
    ("told", "printed"),
    [
        ("a\nb", "a\nb\n"),
        ("size  18.2 MB\ntime  0.90 s, 20.3 MB/s", "size 18.2 MB\ntime 12 s, 1.1 GB/s"),
        ("quantize 18.2 MB\nquantize  18.2 of 18.2 MB  100 %  676 MB/s  0.03 s\ndone", "quantize 18.2 MB\ndone"),
        ("written  out", "compiling kernels for INT4 g32, once on this machine\nwritten  out"),
        ("wrote /tmp/x/out\nschemegen 0.3.0", "wrote /var/folders/y/out\nschemegen 0.4.0.dev1"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...\nd", "a\nd"),
        ("...\nd\n...", "a\nd\ne"),
        ("head\n------", "head\n---------"),
    ],
)
def test_these_agree(told: str, printed: str) -> None:
    assert difference(told, printed) is None


@pytest.mark.parametrize(
    ("told", "printed"),
    [
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("size 18.2 MB", "size 18.3 MB"),
        ("124 in, 474 out", "124 in, 475 out"),
        ("a\n...\nd", "a\nb\nc"),
        ("wrote /tmp/x/out", "wrote /tmp/x/other"),
        ("a.b", "axb"),
    ],
)
def test_these_differ(told: str, printed: str) -> None:
    assert difference(told, printed) is not None


def test_the_difference_shows_both_sides() -> None:
    assert difference("a\nb", "a\nc") == "--- the page says\n+++ it prints\n@@ -1,2 +1,2 @@\n a\n-b\n+c"
