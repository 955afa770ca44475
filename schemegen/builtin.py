"""What ships with schemegen, registered through the same hooks as a guest's."""

from __future__ import annotations

from schemegen.architectures.base import Architecture
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.backends.base import Backend
from schemegen.backends.native_rtn import NativeRtn
from schemegen.data import schemes_folder
from schemegen.hookspecs import hookimpl
from schemegen.loader import load_policies, load_schemes
from schemegen.policy import Policy
from schemegen.scheme import Scheme


@hookimpl
def schemegen_register_schemes() -> list[Scheme]:
    """Every file in schemes/."""
    return load_schemes(schemes_folder())


@hookimpl
def schemegen_register_policies() -> list[Policy]:
    """Every file in schemes/policies/."""
    return load_policies(schemes_folder() / "policies")


@hookimpl
def schemegen_register_architectures() -> list[Architecture]:
    """One object for each file in schemegen/architectures/."""
    return [QWEN3_5_MOE]


@hookimpl
def schemegen_register_backends() -> list[Backend]:
    """The native backends."""
    return [NativeRtn()]
