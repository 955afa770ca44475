"""Runs a page: each block by its language."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from docs.snippets.blocks import SHELLS, Block, Command, blocks_of
from docs.snippets.comparing import difference
from docs.snippets.exceptions import exception_of
from docs.snippets.place import Place
from schemegen.catalog import load_catalog
from schemegen.errors import SchemegenError
from schemegen.loader import load_policy, load_scheme
from schemegen.planner import resolve_rules

_FAULTS: Final = (ValueError, SyntaxError, yaml.YAMLError, SchemegenError)


class SnippetError(Exception):
    """A block does not do what its page says; the message has page and line."""


@dataclass(slots=True)
class Page:
    """A page being run: where, and the Python it has run so far."""

    path: Path
    place: Place
    python: list[str] = field(default_factory=list)

    def run(self) -> int:
        """Run every block; how many. SnippetError at the first that fails."""
        blocks = list(blocks_of(self.path.read_text(encoding="utf-8")))
        for block in blocks:
            if block.language in SHELLS:
                for command in block.commands():
                    self._command(command)
            else:
                self._other(block)
        return len(blocks)

    def _other(self, block: Block) -> None:
        try:
            if block.file is not None:
                self.place.write(block.file, block.text)
            if block.language == "python" and block.file is None:
                self._python(block)
            elif block.language in CHECKS:
                CHECKS[block.language](block, self.place.root)
        except _FAULTS as error:
            raise self._failed(block.line, str(error)) from error

    def _command(self, command: Command) -> None:
        if skipped := exception_of(command.text):
            try:
                skipped.check(command.text)
            except ValueError as error:
                raise self._failed(command.line, f"{command.text}\n{error}") from error
            return
        done = self.place.run(command.text)
        fails = "error:" in (command.output or "").lower()
        if (done.code != 0) != fails:
            raise self._failed(command.line, f"{command.text}\nended with {done.code}:\n{done.output}")
        if command.output is not None and (found := difference(command.output, done.output)):
            raise self._failed(command.line, f"{command.text}\n{found}")

    def _python(self, block: Block) -> None:
        """Run a block after the ones before it, whose names it may use."""
        compile(block.text, str(self.path), "exec")
        self.python.append(block.text)
        script = self.place.root / "page.py"
        script.write_text("\n".join(self.python), encoding="utf-8")
        done = self.place.run(f"python {script}")
        if done.code:
            raise ValueError(done.output)

    def _failed(self, line: int, what: str) -> SnippetError:
        return SnippetError(f"{self.path}:{line}: {what}")


def _yaml(block: Block, scratch: Path) -> None:
    """A mapping with `formats` is a scheme, one with `rules` a policy; anything else need only be YAML."""
    told = yaml.safe_load(block.text)
    path = scratch / "block.yaml"
    path.write_text(block.text, encoding="utf-8")
    if isinstance(told, Mapping) and "formats" in told:
        scheme = load_scheme(path)
        # A page's own plugin may bring policies that only its commands know.
        if not any((scratch / "packages").glob("*.dist-info")):
            resolve_rules(scheme, load_catalog().policy)
    elif isinstance(told, Mapping) and "rules" in told:
        load_policy(path)


def _named_python(block: Block, scratch: Path) -> None:
    compile(block.text, str(block.file), "exec")


CHECKS: Final[Mapping[str, Callable[[Block, Path], object]]] = {
    "yaml": _yaml,
    "python": _named_python,
    "toml": lambda block, scratch: tomllib.loads(block.text),
    "json": lambda block, scratch: json.loads(block.text),
}


def run_page(path: Path, folder: Path) -> int:
    """Run a page's blocks in an empty folder; how many there are. SnippetError at the first that fails."""
    return Page(path, Place(folder)).run()
