"""The generated pages: where each lies and what its text is now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from docs.writing import architectures, commands, error_tree, fields, hooks, names, policies, roles, schemes
from docs.writing.markdown import between_marks
from schemegen.schemas import KINDS, json_schema

ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = "python -m docs.writing"


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its path from the root, and the lines that are generated: all of it or, `marked`, between its marks.

    `headed` pages say at the top what writes them, which JSON cannot.
    """

    name: str
    lines: Callable[[], Iterable[str]]
    marked: bool = False
    headed: bool = True

    @property
    def path(self) -> Path:
        """Where it lies."""
        return ROOT / self.name

    def fresh(self) -> str:
        """The whole text as it should be."""
        if self.marked:
            return between_marks(self.path.read_text(encoding="utf-8"), self.lines())
        head = [f"<!-- `{COMMAND}` writes this page -->", ""] if self.headed else []
        return "\n".join([*head, *self.lines()]).rstrip("\n") + "\n"


def _schema(kind: str) -> list[str]:
    return [json.dumps(json_schema(kind), indent=2)]


PAGES: Final = (
    Page("README.md", schemes.readme, marked=True),
    Page("docs/reference/cli.md", commands.page),
    Page("docs/reference/scheme-file.md", fields.page),
    *(Page(f"docs/reference/{kind}.schema.json", partial(_schema, kind), headed=False) for kind in KINDS),
    Page("docs/reference/schemes.md", schemes.sections, marked=True),
    Page("docs/reference/policies.md", policies.page),
    Page("docs/reference/roles.md", roles.page),
    Page("docs/reference/architectures.md", architectures.page),
    Page("docs/reference/hooks.md", hooks.page),
    Page("docs/reference/api.md", names.using),
    Page("docs/reference/extending.md", names.extending),
    Page("docs/reference/errors.md", error_tree.page),
)
