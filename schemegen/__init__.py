"""schemegen applies a named quantization scheme to a Hugging Face checkpoint.

import schemegen
schemegen.apply("kimi-k2-int4", "path/to/model")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemegen.api import Inspection, Result, apply, describe, inspect, plan, verify
    from schemegen.architectures.base import Architecture, ExpertLayout, Part, Role, TensorRule
    from schemegen.architectures.config import config_int
    from schemegen.backends.base import (
        Backend,
        Batch,
        Buffers,
        Job,
        Needs,
        NonFiniteWeight,
        WeightBackend,
        Weights,
    )
    from schemegen.checking import check
    from schemegen.described import Description
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
    from schemegen.planner import Chunk, Plan, PlannedTensor, Totals
    from schemegen.planner.explanation import Explanation, explain
    from schemegen.policy import Policy
    from schemegen.progress import Progress
    from schemegen.rule import Rule
    from schemegen.schemas import json_schema
    from schemegen.scheme import Format, Scheme
    from schemegen.verifier import Report

_HOMES = {
    "schemegen.api": ("Inspection", "Result", "apply", "describe", "inspect", "plan", "verify"),
    "schemegen.architectures.base": ("Architecture", "ExpertLayout", "Part", "Role", "TensorRule"),
    "schemegen.architectures.config": ("config_int",),
    "schemegen.backends.base": (
        "Backend",
        "Batch",
        "Buffers",
        "Job",
        "Needs",
        "NonFiniteWeight",
        "WeightBackend",
        "Weights",
    ),
    "schemegen.checking": ("check",),
    "schemegen.described": ("Description",),
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
    "schemegen.planner": ("Chunk", "Plan", "PlannedTensor", "Totals"),
    "schemegen.planner.explanation": ("Explanation", "explain"),
    "schemegen.policy": ("Policy",),
    "schemegen.progress": ("Progress",),
    "schemegen.rule": ("Rule",),
    "schemegen.scheme": ("Format", "Scheme"),
    "schemegen.schemas": ("json_schema",),
    "schemegen.verifier": ("Report",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Architecture",
    "Backend",
    "Batch",
    "Buffers",
    "CheckpointError",
    "Chunk",
    "Description",
    "DuplicateNameError",
    "ExpertLayout",
    "Explanation",
    "Format",
    "Inspection",
    "Job",
    "Needs",
    "NonFiniteWeight",
    "OutputError",
    "Part",
    "Plan",
    "PlanError",
    "PlannedTensor",
    "PluginError",
    "Policy",
    "Progress",
    "Report",
    "Result",
    "Role",
    "Rule",
    "Scheme",
    "SchemeFileError",
    "SchemegenError",
    "TensorRule",
    "Totals",
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


__version__: str


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
