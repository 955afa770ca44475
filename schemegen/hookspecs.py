"""The hooks a plugin may implement: functions that return what the plugin adds.

A plugin is a module named by an entry point of the group `schemegen`; `schemegen new plugin acme` writes this one:

    # pyproject.toml
    [project.entry-points.schemegen]
    acme = "schemegen_acme"

    # src/schemegen_acme/__init__.py
    from pathlib import Path

    from schemegen import Scheme, hookimpl, load_schemes


    @hookimpl
    def schemegen_register_schemes() -> list[Scheme]:
        return load_schemes(Path(__file__).parent / "schemes")

`plugins/schemegen-example` has a policy and a backend too. Hooks are called whenever names are looked up, so what they
return is quickly made, and importing the module imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemegen.architectures.base import Architecture
    from schemegen.backends.base import Backend
    from schemegen.policy import Policy
    from schemegen.scheme import Scheme

PROJECT: Final = "schemegen"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def schemegen_register_schemes() -> Iterable[Scheme]:
    """Schemes to offer by name: `return load_schemes(folder)`, or `[load_scheme(path)]`."""
    return ()


@hookspec
def schemegen_register_policies() -> Iterable[Policy]:
    """Policies to offer by name: `return [load_policy(path)]`."""
    return ()


@hookspec
def schemegen_register_architectures() -> Iterable[Architecture]:
    """Model families whose tensor names you know: `return [Architecture(...)]`; see architectures/qwen3_5_moe.py."""
    return ()


@hookspec
def schemegen_register_backends() -> Iterable[Backend]:
    """Ways to compute a format: `return [MyBackend()]`, instances rather than classes."""
    return ()


HOOKS: Final = tuple(sorted(name for name in globals() if name.startswith(f"{PROJECT}_register_")))
"""The names of the hooks."""
