"""What is wrong with a plugin, in one sentence for its author and for whoever installed it."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pluggy
from pydantic import ValidationError

from schemegen.errors import PluginError, SchemeFileError, SchemegenError, plain, raised
from schemegen.hookspecs import HOOKS

_HERE: Final = str(Path(__file__).parent) + os.sep
_UNKNOWN_HOOK: Final = re.compile(r"unknown hook '(\w+)'")
_ARGUMENTS: Final = re.compile(r"hookimpl definition: (.*)\s+Argument\(s\) (\{.*\}) are declared")


@dataclass(frozen=True, slots=True)
class Guard:
    """Runs the code of something that has a name: what it raises names it and its origin, distribution and version."""

    what: str
    origin: str

    def error(self, reason: str) -> PluginError:
        """A PluginError that blames it."""
        distribution, _, version = self.origin.partition(" ")
        return PluginError(self.what, distribution, version or "(built in)", reason)

    @contextmanager
    def blamed(self, call: str, on_purpose: tuple[type[SchemegenError], ...] = (SchemegenError,)) -> Iterator[None]:
        """What is raised on purpose stays as it is; the rest is told as this call's."""
        passing: tuple[type[BaseException], ...] = (*on_purpose, MemoryError, KeyboardInterrupt)
        try:
            yield
        except passing:
            raise
        except BaseException as error:
            raise self.error(f"{call} raised {raised(error)}{where(error)}") from error


def reason_of(error: BaseException, module: str = "") -> str:
    """Why a plugin's code failed; for a stray exception also where, in the package of the plugin's module if it can."""
    if isinstance(error, PluginError):
        return error.reason
    if isinstance(error, SchemeFileError):
        return error.in_short
    if isinstance(error, SchemegenError):
        return "; ".join(str(error).splitlines())
    if isinstance(error, pluggy.PluginValidationError):
        return _unfit_hook(str(error))
    told = invalid(error) if isinstance(error, ValidationError) else raised(error)
    return f"{told}{where(error, module)}"


def misfit(implementation: object) -> str | None:
    """What an entry point names that cannot be a plugin, and what to name; None for a module or an instance."""
    advice = "name a module, or an instance of a class"
    if inspect.isclass(implementation):
        return f"the class {implementation.__name__}; {advice}"
    if inspect.isroutine(implementation):
        return f"the function {implementation.__name__}; {advice}"
    return None


def _unfit_hook(text: str) -> str:
    """pluggy's words, which end with the repr of a module that the message has named already, in fewer of ours."""
    if found := _UNKNOWN_HOOK.search(text):
        near = difflib.get_close_matches(found[1], HOOKS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"hooks are {', '.join(HOOKS)}"
        return f"unknown hook {found[1]!r}; {hint}"
    if found := _ARGUMENTS.search(text):
        return f"{found[1].strip()} asks for {found[2]}, which the hook does not give; take the argument out"
    return " ".join(text.split())


def invalid(error: ValidationError) -> str:
    """The first fault of an object that was made with wrong values: its class, the field, and what is wrong."""
    items = error.errors(include_url=False, include_context=False, include_input=False)
    first = f"{error.title}.{'.'.join(map(str, items[0]['loc']))}".rstrip(".")
    message = str(items[0]["msg"]).removeprefix("Value error, ")
    rest = len(items) - 1
    return plain(f"{first}: {message[:1].lower()}{message[1:]}") + (f", and {rest} more" if rest else "")


def where(error: BaseException, module: str = "") -> str:
    """The last line that ran in the module's package or, without any, that is neither ours nor the import system's."""
    package = module.partition(".")[0]
    frames = [(frame, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    own = [(f, n) for f, n in frames if package and str(f.f_globals.get("__name__")).partition(".")[0] == package]
    for frame, number in reversed(own or frames):
        path = Path(frame.f_code.co_filename)
        if not str(path).startswith((_HERE, "<")) and "importlib" not in path.parts:
            return f" ({path.name}, line {number})"
    return ""
