"""The site, by Sphinx: `make docs` builds it, and any warning fails. Pages are Markdown, for a code host too."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).resolve().parent.parent

project = "schemegen"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
version = release
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["writing", "snippets"]
nitpicky = True

myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = f"schemegen {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e6e", "color-brand-content": "#0b6e6e"},
    "dark_css_variables": {"color-brand-primary": "#4fc3c3", "color-brand-content": "#4fc3c3"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"

#: Pages outside this folder, and the pages of the site that include them.
OUTSIDE: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK: Final = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]*)")


def setup(app: Sphinx) -> None:
    """Let pages that lie outside this folder be included, and linked to."""
    app.connect("include-read", _included)
    app.connect("source-read", _read)


def _included(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    """Links of what lies outside count from the root."""
    content[0] = _LINK.sub(lambda found: f"]({_from(ROOT, found[1], ROOT / 'docs')}", content[0])


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    folder = (ROOT / "docs" / name).parent
    content[0] = _LINK.sub(lambda found: f"]({_from(folder, found[1], folder)}", content[0])


def _from(folder: Path, link: str, other: Path) -> str:
    """A link that counts from one folder, counted from the other; to a page's place on the site where it has one."""
    target = os.path.normpath(folder / link)
    outside = os.path.relpath(target, ROOT)
    return os.path.relpath(ROOT / "docs" / OUTSIDE[outside] if outside in OUTSIDE else target, other)
