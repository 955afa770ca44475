"""reference/hooks.md: every hook with its signature, what it is for and who implements it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

from docs.writing.markdown import block, doc, table
from docs.writing.signatures import signature
from schemegen import builtin, hookspecs

#: What each hook registers, where the parts of that are told, and where the built-in ones are.
BRINGS: Final = {
    "schemegen_register_schemes": ("schemes", "[scheme files](scheme-file.md)", "[{}](schemes.md)"),
    "schemegen_register_policies": ("policies", "[policy files](scheme-file.md#policy)", "[{}](policies.md)"),
    "schemegen_register_architectures": (
        "architectures",
        "[`Architecture`](extending.md#architecture)",
        "[{}](architectures.md)",
    ),
    "schemegen_register_backends": ("backends", "[`Backend`](extending.md#backend)", "{}"),
}
_INTRODUCTION: Final = """\
# Hooks

A plugin is a module that an entry point of the group `schemegen` names and that has at least one function of these,
marked with `@hookimpl`. What ships with schemegen comes through the same hooks."""
_FAULTS: Final = """\
## When a plugin is broken

It is named and the rest goes on: every command works without it. A plugin that cannot be loaded brings nothing; where
one of its hooks fails, nothing of that hook is taken and its other hooks stay (*failed in part*).
`schemegen list plugins` says what is wrong; a name that then is unknown says so, too. A plugin is broken when

- it cannot be imported,
- it has no hook, or a function whose name starts like a hook's and is none,
- a hook takes arguments that its specification has not,
- a hook raises, or returns something else than it should,
- a name is taken: duplicates name both origins.

`SCHEMEGEN_STRICT=1` makes the first fault an error, `SCHEMEGEN_PLUGINS=off` loads no plugin:
[environment variables](cli.md#environment-variables)."""


def hooks() -> dict[str, Callable[..., Any]]:
    """Every hook by name, in the order of the source."""
    found = inspect.getmembers(hookspecs, lambda member: hasattr(member, f"{hookspecs.PROJECT}_spec"))
    return dict(sorted(found, key=lambda pair: pair[1].__code__.co_firstlineno))


def page() -> Iterator[str]:
    """The page."""
    yield from (_INTRODUCTION, "", *_overview(), "")
    for name, hook in hooks().items():
        kind, told_at, listed = BRINGS[name]
        yield from (f"## {name}", "", *block("py", signature(hook)), doc(hook), "")
        shipped = listed.format(len(list(getattr(builtin, name)())))
        yield from (f"It registers {kind}: see {told_at}. `schemegen/builtin.py` registers {shipped}.", "")
    yield from (_FAULTS, "")


def _overview() -> Iterator[str]:
    return table(("hook", "registers"), ((f"[`{name}`](#{name})", BRINGS[name][0]) for name in hooks()))
