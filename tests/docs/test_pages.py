"""Every page does what it says: commands and snippets run, links lead somewhere. `make docs` builds the site."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from docs.snippets.blocks import prose_of
from docs.snippets.pages import PAGES
from docs.snippets.running import run_page

ROOT = Path(__file__).parents[2]
#: Folders whose pages take long enough to be run by test files of their own, and so beside the rest.
APART = ("tutorial", "how-to")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|mailto:)([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*?)#*$", re.MULTILINE)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name not in APART], ids=name)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.parametrize("folder", APART)
def test_what_lies_apart_has_a_test_of_its_own(folder: str) -> None:
    test = Path(__file__).parent / f"test_{folder.replace('-', '_')}.py"
    assert f'page.parent.name == "{folder}"' in test.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(prose_of(page.read_text(encoding="utf-8"))) if not leads(page, link)] == []


def leads(page: Path, link: str) -> bool:
    """Whether the file is there and, where the link names one, the heading."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target)


def anchors(page: Path) -> set[str]:
    """What a code host and the site call the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(prose_of(page.read_text(encoding="utf-8"))):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize(
    ("link", "there"),
    [
        ("README.md", True),
        ("README.md#install", True),
        ("README.md#instal", False),
        ("READYOU.md", False),
        ("../elsewhere.md", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, there: bool) -> None:
    assert leads(ROOT / "README.md", link) is there


def test_every_page_has_one_title() -> None:
    own = [page for page in PAGES if page.name not in ("index.md", "contributing.md", "changelog.md")]
    titles = {name(page): re.findall(r"^# .*$", prose_of(page.read_text(encoding="utf-8")), re.M) for page in own}
    assert {page: found for page, found in titles.items() if len(found) != 1} == {}


def test_every_page_is_in_the_navigation() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "index" and not re.search(rf"^{re.escape(page)}$", index, re.M)] == []
