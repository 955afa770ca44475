"""The help text of every command, word for word; `pytest --snapshot-update` takes a change over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from schemegen.cli.verbs import VERBS

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help(cli: Cli, snapshot: SnapshotAssertion, verb: str) -> None:
    done = cli(*filter(None, [verb, "--help"]))
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot
