"""A plugin of schemegen: each hook returns what it adds, and a hook that is not needed is left out."""

from __future__ import annotations

from pathlib import Path

from schemegen import Backend, Policy, Scheme, hookimpl, load_policies, load_schemes
from schemegen_example.backend import PlainInt8

HERE = Path(__file__).parent


@hookimpl
def schemegen_register_schemes() -> list[Scheme]:
    """Every file in schemes/."""
    return load_schemes(HERE / "schemes")


@hookimpl
def schemegen_register_policies() -> list[Policy]:
    """Every file in policies/."""
    return load_policies(HERE / "policies")


@hookimpl
def schemegen_register_backends() -> list[Backend]:
    """The backend `example-int8`."""
    return [PlainInt8()]
