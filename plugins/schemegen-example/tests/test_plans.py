"""What the scheme and the policy make of each kind of tensor: one YAML file a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemegen.testing import cases, check_case


@pytest.mark.parametrize("path", cases(Path(__file__).parent / "cases"), ids=lambda path: path.stem)
def test_plan(path: Path) -> None:
    check_case(path)
