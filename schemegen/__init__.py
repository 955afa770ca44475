"""schemegen applies a named quantization scheme to a Hugging Face checkpoint.

import schemegen
schemegen.apply("kimi-k2-int4", "path/to/model")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemegen.api import Inspection, Result, apply, describe, inspect, plan, verify
    from schemegen.architectures.base import Architecture, ExpertLayout, Part, Role, TensorRule, config_int
    from schemegen.backends.base import Backend, Buffers, NonFiniteWeight, WeightBackend, Weights
    from schemegen.checking import check
    from schemegen.errors import (
        CheckpointError,
        DuplicateNameError,
        OutputError,
        PlanError,
        PluginError,
        SchemeFileError,
        SchemegenError,
        UnknownNameError,
        UnsupportedError,
        VerificationError,
    )
    from schemegen.hookspecs import hookimpl
    from schemegen.loader import load_policies, load_policy, load_scheme, load_schemes
    from schemegen.planner import Plan
    from schemegen.planner.explanation import Explanation, explain
    from schemegen.policy import Policy
    from schemegen.rule import Rule
    from schemegen.schemas import json_schema
    from schemegen.scheme import Format, Scheme

_HOMES = {
    "schemegen.api": ("Inspection", "Result", "apply", "describe", "inspect", "plan", "verify"),
    "schemegen.architectures.base": ("Architecture", "ExpertLayout", "Part", "Role", "TensorRule", "config_int"),
    "schemegen.backends.base": ("Backend", "Buffers", "NonFiniteWeight", "WeightBackend", "Weights"),
    "schemegen.checking": ("check",),
    "schemegen.errors": (
        "CheckpointError",
        "DuplicateNameError",
        "OutputError",
        "PlanError",
        "PluginError",
        "SchemeFileError",
        "SchemegenError",
        "UnknownNameError",
        "UnsupportedError",
        "VerificationError",
    ),
    "schemegen.hookspecs": ("hookimpl",),
    "schemegen.loader": ("load_policies", "load_policy", "load_scheme", "load_schemes"),
    "schemegen.planner": ("Plan",),
    "schemegen.planner.explanation": ("Explanation", "explain"),
    "schemegen.policy": ("Policy",),
    "schemegen.rule": ("Rule",),
    "schemegen.scheme": ("Format", "Scheme"),
    "schemegen.schemas": ("json_schema",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Architecture",
    "Backend",
    "Buffers",
    "CheckpointError",
    "DuplicateNameError",
    "ExpertLayout",
    "Explanation",
    "Format",
    "Inspection",
    "NonFiniteWeight",
    "OutputError",
    "Part",
    "Plan",
    "PlanError",
    "PluginError",
    "Policy",
    "Result",
    "Role",
    "Rule",
    "Scheme",
    "SchemeFileError",
    "SchemegenError",
    "TensorRule",
    "UnknownNameError",
    "UnsupportedError",
    "VerificationError",
    "WeightBackend",
    "Weights",
    "__version__",
    "apply",
    "check",
    "config_int",
    "describe",
    "explain",
    "hookimpl",
    "inspect",
    "json_schema",
    "load_policies",
    "load_policy",
    "load_scheme",
    "load_schemes",
    "plan",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import schemegen` itself costs nothing."""
    if name == "__version__":
        from importlib.metadata import version

        return version("schemegen")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
