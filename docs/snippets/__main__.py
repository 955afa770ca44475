"""`python -m docs.snippets PAGE…` runs the blocks of these pages, or of all, and says which fails."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from docs.snippets.pages import PAGES
from docs.snippets.running import SnippetError, run_page


def main() -> None:
    """Run them; exit 1 where one fails."""
    failed = False
    for page in [Path(word) for word in sys.argv[1:]] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{page}: {run_page(page, Path(folder))} blocks", flush=True)
            except SnippetError as error:
                print(error, flush=True)
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
