"""What a test does not run, and why; of a command of schemegen the words are checked all the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class NotRun:
    """Commands that match, why they are not run, and what is checked instead (ValueError for a fault)."""

    pattern: str
    reason: str
    check: Callable[[str], None] = lambda command: None


def _parses(command: str) -> None:
    """Arguments and options are those of the command line."""
    import click

    from schemegen.cli.verbs import schemegen

    words = shlex.split(command, comments=True)[1:]
    try:
        with schemegen.make_context("schemegen", words) as above:
            name, verb, rest = schemegen.resolve_command(above, words)
            assert verb is not None
            verb.make_context(name, rest, parent=above)
    except click.ClickException as error:
        raise ValueError(error.format_message()) from error


def _is_target(command: str) -> None:
    """Each word is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    words = [word for word in shlex.split(command, comments=True)[1:] if "=" not in word]
    if missing := [word for word in words if not re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE)]:
        raise ValueError(f"no target {', '.join(missing)} in the Makefile")


NOT_RUN: Final = (
    NotRun(r"schemegen .*\bQwen/Qwen3\.6-35B-A3B\b", "a model of 72 GB, on the Hub", _parses),
    NotRun(r"schemegen .*--device (cuda|auto)", "needs a GPU", _parses),
    NotRun(r"(CUDA_VISIBLE_DEVICES=\S+ )?vllm |python3? -m sglang", "needs an engine, and a GPU"),
    NotRun(r"make( |$)", "runs the tests that this would be a part of", _is_target),
    NotRun(r"git |hf |curl |docker ", "needs a network"),
    NotRun(r"python3? -m venv |(source|\.) \S*activate$", "the page runs in an environment already"),
    NotRun(r"(python3? -m )?pip install (?!(-e |--editable )?'?\./)", "needs a package index"),
    NotRun(r"pytest --snapshot-update|SCHEMEGEN_GOLDEN=write |\.ci/run", "rewrites or runs the project's own tests"),
)


def exception_of(command: str) -> NotRun | None:
    """Why this command is not run, if it is not."""
    return next((found for found in NOT_RUN if re.match(found.pattern, command)), None)
