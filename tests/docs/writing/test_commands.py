"""The page on commands shows what `-h` prints."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from docs.writing.commands import command_of, help_of
from schemegen.cli.verbs import VERBS


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_is_what_the_program_prints(verb: str | None) -> None:
    words = [sys.executable, "-m", "schemegen", *filter(None, [verb]), "-h"]
    done = subprocess.run(words, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=True)
    assert help_of(verb).startswith(done.stdout.rstrip("\n"))


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_prints_json_when_asked(verb: str) -> None:
    assert [option.opts for option in command_of(verb).params if option.name == "as_json"] == [["--json"]]
