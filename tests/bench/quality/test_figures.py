"""Figures of a README: only those of the table they are from, under the names that schemes have."""

from __future__ import annotations

from pathlib import Path

from bench.quality.figures import Given, given_figures

README = """\
| checkpoint | nats per byte | KL to BF16 per byte | same top-1 |
|---|---|---|---|
| BF16 | 1.25 | 0 | 1 |
| INT4 g32 RTN (some-int4) | 1.5 | 0.0008 | 0.98 |
| other-int8 | 1.75 | 0.0001 | 0.99 |

| rule | SQNR, g32 | KL, g32 | SQNR, g128 | KL, g128 |
|---|---|---|---|---|
| signed | 21.37 | 0.000714 | 19.80 | 0.000933 |

vLLM accepts 91.5 % of the BF16 MTP block's drafts and 89.5 % after some-int4.
"""


def test_rows_are_found_by_scheme(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(README)
    assert given_figures(path) == {
        "BF16": Given(1.25, 0, 1, 91.5),
        "some-int4": Given(1.5, 0.0008, 0.98, 89.5),
        "other-int8": Given(1.75, 0.0001, 0.99),
    }


def test_a_readme_may_be_absent_or_say_nothing(tmp_path: Path) -> None:
    assert given_figures(tmp_path / "README.md") == {}
    for text in (b"A model.\n", b"\xff\xfe", b"| a | 1.2.3 | 1 | 2 |", b"| a | ... | . | 2 |", b"| a |\n|1|2|3|"):
        (tmp_path / "README.md").write_bytes(text)
        assert given_figures(tmp_path / "README.md") == {}
