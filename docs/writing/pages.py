"""The generated pages: where each lies and what its text is now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.writing import architectures, commands, error_tree, fields, hooks, names, policies, roles, schemes
from docs.writing.markdown import between_marks

ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = "python -m docs.writing"


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its path from the root, and the lines that are generated: all of it or, `marked`, between its marks."""

    name: str
    lines: Callable[[], Iterable[str]]
    marked: bool = False

    @property
    def path(self) -> Path:
        """Where it lies."""
        return ROOT / self.name

    def fresh(self) -> str:
        """The whole text as it should be."""
        if self.marked:
            return between_marks(self.path.read_text(encoding="utf-8"), self.lines())
        return "\n".join([f"<!-- `{COMMAND}` writes this page -->", "", *self.lines()]).rstrip("\n") + "\n"


PAGES: Final = (
    Page("README.md", schemes.readme, marked=True),
    Page("docs/reference/cli.md", commands.page),
    Page("docs/reference/scheme-file.md", fields.page),
    Page("docs/reference/schemes.md", schemes.sections, marked=True),
    Page("docs/reference/policies.md", policies.page),
    Page("docs/reference/roles.md", roles.page),
    Page("docs/reference/architectures.md", architectures.page),
    Page("docs/reference/hooks.md", hooks.page),
    Page("docs/reference/api.md", names.page),
    Page("docs/reference/errors.md", error_tree.page),
)
