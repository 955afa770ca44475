"""What is wrong with a plugin, in one sentence for its author and for whoever installed it."""

from __future__ import annotations

import difflib
import inspect
import re
import traceback
from pathlib import Path
from typing import Final

import pluggy

from schemegen.errors import PluginError, SchemeFileError, SchemegenError, raised

_HERE: Final = str(Path(__file__).parent)
_UNKNOWN_HOOK: Final = re.compile(r"unknown hook '(\w+)'")
_ARGUMENTS: Final = re.compile(r"hookimpl definition: (.*)\s+Argument\(s\) (\{.*\}) are declared")


def reason_of(manager: pluggy.PluginManager, error: BaseException) -> str:
    """Why a plugin's code failed; for a stray exception also where."""
    if isinstance(error, PluginError):
        return error.reason
    if isinstance(error, SchemeFileError):
        rest = len(error.faults) - 1
        return f"{error.faults[0]}" + (f", and {rest} more; schemegen check tells all" if rest else "")
    if isinstance(error, SchemegenError):
        return "; ".join(str(error).splitlines())
    if isinstance(error, pluggy.PluginValidationError):
        return _unfit_hook(manager, str(error))
    return f"{raised(error)}{_where(error)}"


def misfit(implementation: object) -> str | None:
    """What an entry point names that cannot be a plugin, and what to name; None for a module or an instance."""
    advice = "name a module, or an instance of a class"
    if inspect.isclass(implementation):
        return f"the class {implementation.__name__}; {advice}"
    if inspect.isroutine(implementation):
        return f"the function {implementation.__name__}; {advice}"
    return None


def hook_names(manager: pluggy.PluginManager) -> list[str]:
    """The hooks there are."""
    return sorted(name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None))


def _unfit_hook(manager: pluggy.PluginManager, text: str) -> str:
    """pluggy's words, which end with the repr of a module that the message has named already, in fewer of ours."""
    known = hook_names(manager)
    if found := _UNKNOWN_HOOK.search(text):
        near = difflib.get_close_matches(found[1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"hooks are {', '.join(known)}"
        return f"unknown hook {found[1]!r}; {hint}"
    if found := _ARGUMENTS.search(text):
        return f"{found[1].strip()} asks for {found[2]}, which the hook does not give; take the argument out"
    return " ".join(text.split())


def _where(error: BaseException) -> str:
    """The last line of code that ran and is neither ours nor the import system's, if there is one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if not frame.filename.startswith((_HERE, "<")) and "importlib" not in path.parts:
            return f" ({path.name}, line {frame.lineno})"
    return ""
