"""The pages of the documentation."""

from __future__ import annotations

from typing import Final

from docs.snippets.exceptions import ROOT

PAGES: Final = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "plugins").glob("*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
