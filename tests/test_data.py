"""Where data and caches lie."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from schemegen.data import cache_home


def test_without_a_cache_of_its_own_the_users_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    assert cache_home() == tmp_path
    monkeypatch.delenv("SCHEMEGEN_CACHE")
    assert cache_home() == platformdirs.user_cache_path("schemegen")


@pytest.mark.parametrize("error", [RuntimeError("Could not determine home directory."), OSError("no such folder")])
def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def homeless(*_: object) -> Path:
        raise error

    monkeypatch.delenv("SCHEMEGEN_CACHE", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", homeless)
    assert cache_home() is None
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: Path("~/.cache/schemegen"))
    assert cache_home() is None
