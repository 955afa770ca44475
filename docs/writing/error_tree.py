"""reference/errors.md: the tree, and each error with a message that was made by raising it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

from docs.writing.examples import EXAMPLES, Example, raised
from docs.writing.markdown import block, doc
from schemegen import errors
from schemegen.errors import SchemegenError

_INTRODUCTION: Final = """\
# Errors

Every error that schemegen raises on purpose is one of these. The command line prints it after `error: ` on stderr and
exits with 1; in a program, catch `schemegen.SchemegenError` or one below it. A message starts in lower case, names
the thing, and says what to do next."""


def page() -> Iterator[str]:
    """The page."""
    yield from (_INTRODUCTION, "", *block("text", _tree()))
    yield from (f"## {SchemegenError.__name__}", "", doc(SchemegenError), "")
    for example in EXAMPLES:
        yield from _section(example)


def classes() -> list[type[SchemegenError]]:
    """Every error of the tree but its root, in the order of the source."""
    found = (member for _, member in inspect.getmembers(errors, inspect.isclass))
    below = [member for member in found if issubclass(member, SchemegenError) and member is not SchemegenError]
    return sorted(below, key=lambda member: inspect.getsourcelines(member)[1])


def _tree() -> str:
    """The drawing in the module's docstring."""
    lines = inspect.cleandoc(errors.__doc__ or "").splitlines()
    return "\n".join(line for line in lines if line.startswith((SchemegenError.__name__, "├", "└", "│")))


def _section(example: Example) -> Iterator[str]:
    yield from (f"## {example.error.__name__}", "", doc(example.error), "", f"For example, {example.when}:", "")
    yield from block("text", f"error: {raised(example)}")
