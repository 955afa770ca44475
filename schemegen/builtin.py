"""What ships with schemegen, registered through the same hooks as a guest's."""

from __future__ import annotations

from functools import cache

from schemegen.architectures.base import Architecture
from schemegen.architectures.known import ARCHITECTURES
from schemegen.backends.base import Backend
from schemegen.backends.native_rtn import NativeRtn
from schemegen.data import schemes_folder
from schemegen.hookspecs import hookimpl
from schemegen.loader import load_shipped
from schemegen.policy import Policy
from schemegen.scheme import Scheme


@hookimpl
def schemegen_register_schemes() -> list[Scheme]:
    """Every file in schemes/."""
    return list(_shipped()[0])


@hookimpl
def schemegen_register_policies() -> list[Policy]:
    """Every file in schemes/policies/."""
    return list(_shipped()[1])


@hookimpl
def schemegen_register_architectures() -> list[Architecture]:
    """One object for each file in schemegen/architectures/."""
    return list(ARCHITECTURES)


@hookimpl
def schemegen_register_backends() -> list[Backend]:
    """The native backends."""
    return [NativeRtn()]


@cache
def _shipped() -> tuple[list[Scheme], list[Policy]]:
    """Read once a process; nobody may change the lists, and nobody can change what is in them."""
    return load_shipped(schemes_folder())
