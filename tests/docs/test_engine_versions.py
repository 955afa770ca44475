"""Pages that name an engine's release name the one whose sources were read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.snippets.pages import PAGES
from schemegen.engines.serving import VERSIONS

ROOT = Path(__file__).parents[2]
RELEASE = re.compile(rf"\b({'|'.join(VERSIONS)})\s+(\d+\.\d+(?:\.\d+)*)\b")
#: What they say is of a day that is past.
HISTORY = ("decisions.md", "upgrade.md")
TOLD = [page for page in PAGES if page.name not in HISTORY and RELEASE.search(page.read_text(encoding="utf-8"))]


def test_some_pages_name_releases() -> None:
    assert {"formats.md", "serve.md", "schemes.md"} <= {page.name for page in TOLD}


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_releases_are_those_whose_sources_were_read(page: Path) -> None:
    found = set(RELEASE.findall(page.read_text(encoding="utf-8")))
    assert found <= set(VERSIONS.items()), "change it here, or schemegen/engines/serving.py"
