"""What the how-to pages show runs, as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.snippets.pages import PAGES
from docs.snippets.running import run_page

OWN = [page for page in PAGES if page.parent.name == "how-to"]


@pytest.mark.parametrize("page", OWN, ids=lambda page: page.name)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path) -> None:
    assert run_page(page, tmp_path) > 0
