"""Where a page's commands run: an empty folder, this Python, no guest plugin but those the page installs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from docs.snippets.exceptions import ROOT

_MOST_SECONDS: Final = 120
_INSTALL: Final = re.compile(r"(?:python3? -m )?pip install (?P<folders>.*)")
_PROGRAMS: Final = {
    "schemegen": "-m schemegen",
    "python": "",
    "python3": "",
    "pytest": "-m pytest",
    "pip": "-m pip",
}
#: Plugins of the machine's environment would show in lists; those of the page lie in its own folder of packages.
_GUESTS: Final = """\
import importlib.metadata as metadata, os, pathlib
_all, _own = metadata.entry_points, pathlib.Path({packages!r})
def entry_points(**given):
    found = _all(**given)
    if given.get("group") != "schemegen":
        return found
    return metadata.EntryPoints(each for each in found if each.dist and _own in pathlib.Path(each.dist._path).parents)
metadata.entry_points = entry_points
"""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it printed on stdout and stderr together."""

    code: int
    output: str


@dataclass(slots=True)
class Place:
    """A folder's `page`, the working folder, beside `bin` and `packages`, which are the environment's."""

    root: Path
    working: Path = field(init=False)
    exported: dict[str, str] = field(default_factory=dict)
    installed: dict[Path, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the folders and the programs."""
        for name in ("page", "bin", "packages"):
            (self.root / name).mkdir()
        self.working = self.page
        for name, words in _PROGRAMS.items():
            program = self.root / "bin" / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            program.chmod(0o755)
        (self.packages / "sitecustomize.py").write_text(_GUESTS.format(packages=str(self.packages)))

    @property
    def page(self) -> Path:
        """Where the page's files are."""
        return self.root / "page"

    @property
    def packages(self) -> Path:
        """Where the page's own distributions are installed."""
        return self.root / "packages"

    def write(self, name: str, text: str) -> None:
        """Write a file of the page; ValueError for a name that leads out of its folder."""
        path = (self.working / name).resolve()
        if not path.is_relative_to(self.page.resolve()):
            raise ValueError(f"{name} lies outside the page's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, command: str) -> Done:
        """Run a command as a shell would; `cd` and `export` last, and folders are installed without an index."""
        self._install_again()
        if found := _INSTALL.fullmatch(command):
            return self._install(found["folders"])
        if command.startswith("export "):
            self.exported |= dict(word.split("=", 1) for word in shlex.split(command)[1:])
            return Done(0, "")
        left = self.root / "left"
        done = self._start(["bash", "-c", f"trap 'pwd >{shlex.quote(str(left))}' EXIT\n{command}"])
        self.working = Path(left.read_text().strip())
        return done

    def _start(self, words: list[str]) -> Done:
        done = subprocess.run(
            words,
            cwd=self.working,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout)

    def _environment(self) -> dict[str, str]:
        """This process's less what steers schemegen or pytest, with the page's programs and packages in front."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEMEGEN_", "PYTEST_"))}
        paths = (str(self.root / "bin"), os.environ.get("PATH", ""))
        modules = (str(self.packages), str(ROOT), os.environ.get("PYTHONPATH", ""))
        own = {
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": os.pathsep.join(filter(None, modules)),
            "HF_HUB_OFFLINE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "100",
        }
        return {**kept, **own, **self.exported}

    def _install(self, words: str) -> Done:
        """Install folders of the page; what is editable is installed again when one of its files is newer.

        Their extras are taken to be there.
        """
        given = [word.partition("[")[0] for word in shlex.split(words, comments=True) if not word.startswith("-")]
        folders = [self.working / word for word in given]
        for folder in folders:
            done = self._pip(folder)
            if done.code:
                return done
            if words.startswith("-"):
                self.installed[folder] = max(_times(folder))
        return Done(0, "")

    def _install_again(self) -> None:
        for folder, time in self.installed.items():
            if (newest := max(_times(folder))) > time:
                self._pip(folder)
                self.installed[folder] = newest

    def _pip(self, folder: Path) -> Done:
        options = "--quiet --no-index --no-deps --no-build-isolation --disable-pip-version-check --upgrade --target"
        return self._start(["python", "-m", "pip", "install", *options.split(), str(self.packages), str(folder)])


def _times(folder: Path) -> Iterator[float]:
    """When each source of a distribution was written."""
    yield 0.0
    yield from (path.stat().st_mtime for path in folder.rglob("*") if path.is_file() and "build" not in path.parts)
