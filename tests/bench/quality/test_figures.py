"""Figures of a README: only those of the table they are from, under the names that schemes have."""

from __future__ import annotations

from pathlib import Path

from bench.quality.figures import Known, known_figures

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
    assert known_figures(path) == {
        "BF16": Known(1.25, 0, 1, 91.5),
        "some-int4": Known(1.5, 0.0008, 0.98, 89.5),
        "other-int8": Known(1.75, 0.0001, 0.99),
    }


def test_a_readme_may_be_absent_or_say_nothing(tmp_path: Path) -> None:
    assert known_figures(tmp_path / "README.md") == {}
    (tmp_path / "README.md").write_text("A model.\n")
    assert known_figures(tmp_path / "README.md") == {}
