"""Text from outside stays text: a Markdown renderer shows it as it was, and finds nothing else in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemegen.seal.markdown import code, linked, one_line, plain

HOSTILE = [
    "a `b` *c* _d_ **e** ~~f~~",
    "<script>alert(1)</script> <b>",
    "[text](https://x.y) ![image](z) &lt; &#60;",
    "| cell | cell |",
    "# title",
    "$$x$$ \\(y\\)",
    "- item",
    "+ item",
    "1. item",
    "1) item",
    "---",
    "===",
    "> quote",
    "a\\",
]


def rendered(text: str) -> Any:
    """The inline tokens of the one paragraph that the text has to be."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = markdown.parse(text)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], text
    return tokens[1].children


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_it_as_it_was(text: str) -> None:
    tokens = rendered(plain(text))
    assert {token.type for token in tokens} <= {"text", "text_special"}
    assert "".join(token.content for token in tokens) == text


@given(st.text(min_size=1))
def test_whatever_it_is_it_is_one_line_of_text(text: str) -> None:
    if not (line := one_line(text)):
        return
    tokens = rendered(plain(text))
    assert "".join(token.content for token in tokens) == line


def test_line_ends_and_marks_that_turn_text_around_go() -> None:
    assert one_line("a\r\nb\u2028c\x85d\x00e\u202efg\u2069") == "a b c d efg"


def test_code_ends_neither_its_span_nor_its_cell() -> None:
    assert code("a`b``c|d\ne") == "a b c d e"
    tokens = rendered(f"`{code('x` <b> *y*')}`")
    assert [(token.type, token.content) for token in tokens] == [("code_inline", "x <b> *y*")]


@pytest.mark.parametrize("text", ["https://x.y/a_b?c=d#e", "http://x"])
def test_an_address_becomes_a_link(text: str) -> None:
    assert linked(text) == f"<{text}>"


@pytest.mark.parametrize("text", ["javascript:alert(1)", "https://x y", "https://x><b>", "see https://x"])
def test_any_other_text_does_not(text: str) -> None:
    assert linked(text) == plain(text)
