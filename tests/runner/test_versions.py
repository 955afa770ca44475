"""All parts of an output are made by the same versions of the code; a finished output outlives an upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest

import schemegen
from schemegen.errors import OutputError
from schemegen.progress import Silent

KIMI = "kimi-k2-int4"


class Stopped(Silent):
    """Ctrl-C at the first progress."""

    def advance(self, nbytes: int) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a version that was not there before."""
    monkeypatch.setattr("schemegen.backends.guard.version", lambda name: f"999-{name}")


def test_an_upgrade_between_two_runs_is_refused_by_name(
    sample_folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        schemegen.apply(KIMI, sample_folder, out, progress=Stopped())
    request.getfixturevalue("upgrade")
    with pytest.raises(OutputError, match=r"versions\.numba: there .*, now 999-numba(.|\n)*discard it with --restart"):
        schemegen.apply(KIMI, sample_folder, out)
    assert schemegen.apply(KIMI, sample_folder, out, restart=True).status == "written"


def test_an_upgrade_makes_no_finished_output_foreign(
    sample_folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    schemegen.apply(KIMI, sample_folder, out)
    request.getfixturevalue("upgrade")
    assert schemegen.apply(KIMI, sample_folder, out).status == "unchanged"
