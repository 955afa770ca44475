"""The README and CONTRIBUTING, beyond what all pages are held to: verbs, make targets and files that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemegen.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BOTH = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_verb_is_told() -> None:
    assert [verb for verb in VERBS if f"| `schemegen {verb}" not in README] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"`make ([\w-]+)`", BOTH))
    assert {"bench", "help"} <= targets
    assert [target for target in targets if f"\n{target}:" not in MAKEFILE] == []


def test_files_and_folders_that_are_named_exist() -> None:
    named = set(re.findall(r"`((?:schemegen|schemes|tests|bench|docs|plugins)/[\w/.-]*)`", BOTH))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_blocks_are_fenced_so_that_they_are_run(page: str) -> None:
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if re.match(r"    (make|schemegen|pip|python) ", line)] == []
