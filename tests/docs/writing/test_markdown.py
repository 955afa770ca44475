"""Pieces of Markdown."""

from __future__ import annotations

from docs.writing.markdown import block, code, doc, escaped, sentence, table


def test_a_bar_in_a_cell_is_escaped() -> None:
    assert list(table(("a", "b"), [("x|y", "z")])) == ["| a | b |", "|---|---|", r"| x\|y | z |"]


def test_html_and_emphasis_are_escaped_but_in_code() -> None:
    assert escaped("./<model>, *.yaml and `<x> * y`") == r"./\<model>, \*.yaml and `<x> * y`"


def test_blocks_code_and_sentences() -> None:
    assert list(block("sh", "\none\n")) == ["```sh", "one", "```", ""]
    assert code(["a", 1]) == "`a`, `1`"
    assert [sentence("an apple"), sentence("An apple.")] == ["An apple.", "An apple."]
    assert doc(object()) != ""
    assert doc(type("Plain", (), {})) == ""
