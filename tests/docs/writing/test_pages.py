"""Generated pages are what `python -m docs.writing` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.writing import __main__ as writing
from docs.writing.markdown import BEGIN, END, between_marks
from docs.writing.pages import COMMAND, PAGES, ROOT, Page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_up_to_date(page: Page) -> None:
    assert page.path.read_text(encoding="utf-8") == page.fresh(), f"{page.name} is stale: {COMMAND}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.marked], ids=lambda page: page.name)
def test_what_is_generated_lies_between_one_pair_of_marks(page: Page) -> None:
    text = page.path.read_text(encoding="utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)


def test_every_page_that_says_so_is_generated() -> None:
    generated = {page.path for page in PAGES}
    saying = [
        path for path in (ROOT / "docs").rglob("*.md") if f"`{COMMAND}` writes" in path.read_text(encoding="utf-8")
    ]
    assert [path for path in saying if path not in generated] == []


def test_the_command_writes_what_is_stale_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("docs.writing.pages.ROOT", tmp_path)
    monkeypatch.setattr(writing, "PAGES", (Page("a/new.md", lambda: ["# New"]), Page("half.md", lambda: ["new"], True)))
    (tmp_path / "half.md").write_text(f"by hand\n{BEGIN}\nold\n{END}\nby hand\n")
    writing.main()
    assert capsys.readouterr().out == "wrote a/new.md\nwrote half.md\n"
    assert (tmp_path / "a/new.md").read_text() == f"<!-- `{COMMAND}` writes this page -->\n\n# New\n"
    assert (tmp_path / "half.md").read_text() == f"by hand\n{BEGIN}\n\nnew\n\n{END}\nby hand\n"
    writing.main()
    assert capsys.readouterr().out == ""


def test_text_without_marks_stays() -> None:
    assert between_marks("by hand", ["new"]) == "by hand"
