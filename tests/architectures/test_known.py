"""The families that ship are the ones that are registered, and their spellings are all known."""

from __future__ import annotations

from schemegen.architectures.known import ARCHITECTURES, RENAMES
from schemegen.builtin import schemegen_register_architectures


def test_what_is_known_is_what_is_registered() -> None:
    assert list(ARCHITECTURES) == schemegen_register_architectures()


def test_every_rename_is_there_once() -> None:
    assert set(RENAMES) == {rename for family in ARCHITECTURES for rename in family.renames}
    assert len(RENAMES) == len(set(RENAMES)) > 0
