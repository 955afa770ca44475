"""Reading blocks, their files' names and their commands."""

from __future__ import annotations

import pytest

from docs.snippets.blocks import Block, Command, blocks_of, prose_of

PAGE = """\
# A page

Write this as `a/mine.yaml`:

```yaml
name: mine
```

Not a name: `x` here.

- in a list:
    ```python
    def f():
        return 1
    ```

And what is in `theirs.yaml`:

```yaml
name: theirs
```

A longer text. Now write this as
`a/other.yaml`:

```yaml
name: other
```

Run `it`:
```sh
one
```
"""


def test_blocks_have_language_text_line_and_file() -> None:
    assert list(blocks_of(PAGE)) == [
        Block("yaml", "name: mine\n", 6, "a/mine.yaml"),
        Block("python", "def f():\n    return 1\n", 13, None),
        Block("yaml", "name: theirs\n", 20, None),
        Block("yaml", "name: other\n", 27, "a/other.yaml"),
        Block("sh", "one\n", 32, None),
    ]


def test_a_block_that_is_not_closed_is_a_fault() -> None:
    with pytest.raises(ValueError, match="line 1: the block is not closed"):
        list(blocks_of("```sh\none\n"))


def test_prose_has_no_blocks_and_keeps_its_lines() -> None:
    prose = prose_of(PAGE)
    assert len(prose.splitlines()) == len(PAGE.splitlines())
    assert "name: mine" not in prose
    assert "Not a name" in prose


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("one\n# a remark\n\ntwo  # said\n", [Command("one", 5), Command("two  # said", 8)]),
        ("one \\\n  more\ntwo\n", [Command("one \\\n  more", 5), Command("two", 7)]),
        ("echo 'a\nb'\n", [Command("echo 'a\nb'", 5)]),
    ],
)
def test_commands_of_sh(text: str, commands: list[Command]) -> None:
    assert list(Block("sh", text, 5).commands()) == commands


def test_commands_of_console_have_what_they_print() -> None:
    text = "$ one \\\n  more\nsaid\n\nmore\n$ two\n$ three\nend\n"
    assert list(Block("console", text, 5).commands()) == [
        Command("one \\\n  more", 5, "said\n\nmore"),
        Command("two", 10),
        Command("three", 11, "end"),
    ]
