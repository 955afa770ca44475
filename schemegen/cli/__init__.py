"""The command line: one verb a file, each imported only when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from schemegen.cli.exits import exit_code
from schemegen.cli.verbs import schemegen

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave: 0 done, 1 a SchemegenError, 2 usage, 130 Ctrl-C, 143 SIGTERM, 141 a closed pipe."""
    # Not list(args): the verb module of that name becomes an attribute of this package once it is imported.
    given = sys.argv[1:] if args is None else [*args]
    sys.exit(exit_code(lambda: _run(given or ["--help"])))


def _run(args: list[str]) -> None:
    # Not schemegen.main(): click would answer interrupts and closed pipes in its own way.
    with schemegen.make_context("schemegen", args) as context:
        schemegen.invoke(context)
