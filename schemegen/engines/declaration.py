"""The `quantization_config` of compressed-tensors, in the fields and the order of Kimi's published checkpoints."""

from __future__ import annotations

from typing import Any, Final

from schemegen.architectures.base import Architecture
from schemegen.engines.ignore import check_ignore, ignore_list
from schemegen.engines.modules import engine_modules
from schemegen.errors import UnsupportedError
from schemegen.formats import storage_of
from schemegen.planner import Plan
from schemegen.scheme import Format, Quantization

_FIELDS: Final = (
    "actorder",
    "block_structure",
    "dynamic",
    "group_size",
    "num_bits",
    "observer",
    "observer_kwargs",
    "strategy",
    "symmetric",
    "type",
)
#: Newer than Kimi's files: written only where a scheme sets them.
_OPTIONAL_FIELDS: Final = ("scale_dtype", "zp_dtype")


def declare(plan: Plan, architecture: Architecture) -> dict[str, Any]:
    """The block for config.json, with an `ignore` that fits the stored tensors.

    PlanError where an engine could not be told what is kept; UnsupportedError for more than one format.
    """
    modules = engine_modules(plan, architecture)
    ignore = ignore_list(modules, architecture.part_ignores)
    check_ignore(modules, ignore)
    return {
        "config_groups": config_groups(plan),
        "format": storage_of(_only_format(plan)),
        "ignore": ignore,
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }


def config_groups(plan: Plan) -> dict[str, Any]:
    """One group a format, its storage format repeated inside: readers look at either place."""
    return {"group_0": _group(_only_format(plan))}


def _only_format(plan: Plan) -> Format:
    used = dict.fromkeys(tensor.format for tensor in plan.tensors if tensor.format is not None)
    if len(used) != 1:
        named = ", ".join(used) or "no format"
        raise UnsupportedError(f"this plan uses {named}; a checkpoint with one format is what this version can declare")
    return plan.scheme.formats[next(iter(used))]


def _group(format: Format) -> dict[str, Any]:
    return {
        "format": storage_of(format),
        "input_activations": _arguments(format.input_activations),
        "output_activations": _arguments(format.output_activations),
        "targets": ["Linear"],
        "weights": _arguments(format.weights),
    }


def _arguments(values: Quantization | None) -> dict[str, Any] | None:
    if values is None:
        return None
    known = values.model_dump(mode="json")
    set_fields = [name for name in _OPTIONAL_FIELDS if known[name] is not None]
    return {name: known[name] for name in (*_FIELDS, *set_fields)}
