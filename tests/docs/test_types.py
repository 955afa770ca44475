"""Programs that the how-to pages show are typed as strictly as schemegen itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.snippets.blocks import blocks_of

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
#: A page's blocks beside those that become files: scripts each.
PAGES = {"library.md": True, "backend.md": False, "architecture.md": False}


def test_programs_are_typed(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    programs = [path for page, scripts in PAGES.items() for path in written(page, tmp_path, scripts)]
    assert len(programs) > len(PAGES)
    told, faults, code = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), *programs])
    assert code == 0, told + faults


def written(page: str, folder: Path, scripts: bool) -> list[str]:
    """The page's programs as files, but for tests, which import a page's other files."""
    found = []
    for number, block in enumerate(blocks_of((HOW_TO / page).read_text(encoding="utf-8"))):
        name = Path(block.file or f"{Path(page).stem}_{number}.py").name
        if block.language == "python" and not name.startswith("test_") and (scripts or block.file):
            path = folder / name
            path.write_text(block.text, encoding="utf-8")
            found.append(str(path))
    return found
