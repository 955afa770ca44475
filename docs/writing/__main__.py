"""`python -m docs.writing` rewrites every generated page that is stale, and names it."""

from __future__ import annotations

from docs.writing.pages import PAGES


def main() -> None:
    """Write what differs."""
    for page in PAGES:
        fresh = page.fresh()
        if not page.path.exists() or page.path.read_text(encoding="utf-8") != fresh:
            page.path.parent.mkdir(parents=True, exist_ok=True)
            page.path.write_text(fresh, encoding="utf-8")
            print(f"wrote {page.name}")


if __name__ == "__main__":
    main()
