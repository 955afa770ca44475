"""The `quantization_config` of compressed-tensors, in the fields and the order of Kimi's published checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemegen.architectures.base import Architecture, Role
from schemegen.engines.ignore import check_ignore, ignore_list
from schemegen.engines.modules import engine_modules
from schemegen.errors import PlanError, UnsupportedError
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
#: Built unquantized by vLLM or by SGLang, whatever the config says.
_UNQUANTIZED_IN_ENGINES: Final = frozenset(
    {Role.ROUTER, Role.SHARED_EXPERT_GATE, Role.MIXER_GATE, Role.FUSION, Role.EMBEDDING, Role.NORM, Role.STATE}
)
#: What a block says whatever the plan.
_CONSTANTS: Final = {
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
}
_KEYS: Final = ("config_groups", "format", "ignore", *_CONSTANTS)
#: Newer than Kimi's files: written only where a scheme sets them.
_OPTIONAL_FIELDS: Final = ("scale_dtype", "zp_dtype")


def declare(plan: Plan, architecture: Architecture) -> dict[str, Any]:
    """The block for config.json, with an `ignore` that fits the stored tensors.

    PlanError where an engine could not be told what is kept; UnsupportedError for more than one format, and for what
    engines build unquantized.
    """
    _check_roles(plan)
    modules = engine_modules(plan, architecture)
    ignore = ignore_list(modules, architecture.part_ignores)
    check_ignore(modules, ignore)
    return {
        "config_groups": config_groups(plan),
        "format": storage_of(_only_format(plan)),
        "ignore": ignore,
        **_CONSTANTS,
    }


def block_faults(block: Mapping[str, Any]) -> list[str]:
    """Where a stored block says what no plan's does."""
    wanted = {key: block.get(key) for key in _KEYS} | _CONSTANTS
    return list(_differences(block, wanted))


def declaration_faults(block: Mapping[str, Any], plan: Plan, architecture: Architecture | None) -> list[str]:
    """Where a stored block says something else than the plan did; `ignore` only where an architecture is given."""
    try:
        if architecture is not None:
            wanted = declare(plan, architecture)
        else:
            groups, format = config_groups(plan), storage_of(_only_format(plan))
            wanted = {"config_groups": groups, "format": format, "ignore": block.get("ignore"), **_CONSTANTS}
    except (PlanError, UnsupportedError) as error:
        return [str(error)]
    return list(_differences(block, wanted))


def _differences(block: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for key in wanted:
        if key not in block:
            yield f"{key} is missing"
        elif not _is_same(block[key], wanted[key]):
            yield f"{key} is not the plan's{_lack(block[key], wanted[key]) if key == 'ignore' else ''}"
    yield from (f"{key} is none of its keys; remove it" for key in sorted(block.keys() - wanted.keys()))


def _lack(found: object, wanted: Sequence[str]) -> str:
    """Which of the wanted entries are not there, and how many are that should not be."""
    if not isinstance(found, list):
        return ""
    lacks = [entry for entry in wanted if entry not in found]
    more = sum(entry not in wanted for entry in found)
    return (f"; it lacks {', '.join(lacks[:3])}" if lacks else "") + (f"; it has {more} more" if more else "")


def _is_same(found: object, wanted: object) -> bool:
    # As text, for 1 is neither true nor 1.0 to whoever reads it strictly.
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def config_groups(plan: Plan) -> dict[str, Any]:
    """One group a format, its storage format repeated inside: readers look at either place."""
    targets = ["Linear"]
    if any(tensor.role is Role.LM_HEAD and tensor.format is not None for tensor in plan.tensors):
        # vLLM's class for it is no Linear: only a name reaches it.
        targets.append("re:.*lm_head$")
    return {"group_0": _group(_only_format(plan), targets)}


def _check_roles(plan: Plan) -> None:
    for tensor in plan.tensors:
        if tensor.format is not None and tensor.role in _UNQUANTIZED_IN_ENGINES:
            raise UnsupportedError(
                f"rule {tensor.rule} quantizes {tensor.name}, but engines build a {tensor.role} unquantized; keep it"
            )


def _only_format(plan: Plan) -> Format:
    if len(plan.formats_used) != 1:
        named = ", ".join(plan.formats_used) or "no format"
        raise UnsupportedError(f"this plan uses {named}; a checkpoint with one format is what this version can declare")
    return next(iter(plan.formats_used.values()))


def _group(format: Format, targets: list[str]) -> dict[str, Any]:
    return {
        "format": storage_of(format),
        "input_activations": _arguments(format.input_activations),
        "output_activations": _arguments(format.output_activations),
        "targets": targets,
        "weights": _arguments(format.weights),
    }


def _arguments(values: Quantization | None) -> dict[str, Any] | None:
    if values is None:
        return None
    known = values.model_dump(mode="json")
    set_fields = [name for name in _OPTIONAL_FIELDS if known[name] is not None]
    return {name: known[name] for name in (*_FIELDS, *set_fields)}
