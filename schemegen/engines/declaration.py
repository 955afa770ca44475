"""The `quantization_config` of compressed-tensors, in the fields and the order of Kimi's published checkpoints.

One group a format, the routed experts' first; `format` on top is theirs too, for SGLang's INT4 experts read no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemegen.architectures.base import Architecture, Part, Role
from schemegen.engines.arguments import activation_arguments, weight_arguments
from schemegen.engines.ignore import check_ignore, ignore_list
from schemegen.engines.modules import Module, engine_modules
from schemegen.engines.targets import Targets, check_targets, formats_in_order, targets_of
from schemegen.errors import PlanError, UnsupportedError
from schemegen.formats import storage_of
from schemegen.planner import Plan
from schemegen.scheme import Format

#: Built unquantized by vLLM or by SGLang, whatever the config says.
UNQUANTIZED_ROLES: Final = frozenset(
    {Role.ROUTER, Role.SHARED_EXPERT_GATE, Role.MIXER_GATE, Role.FUSION, Role.EMBEDDING, Role.NORM, Role.STATE}
)
#: What a block says whatever the plan.
_CONSTANTS: Final = {
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
}
#: What transformers calls the head in every family.
_HEAD: Final = "lm_head"
_KEYS: Final = ("config_groups", "format", "ignore", *_CONSTANTS)


def declare(plan: Plan, architecture: Architecture) -> dict[str, Any]:
    """The block for config.json, with `targets` and an `ignore` that fit the stored tensors.

    PlanError where an engine could not be told what is kept or which format a module has; UnsupportedError for what
    engines build unquantized.
    """
    _, targets, ignore = _checked(plan, architecture)
    return _block(plan, targets, ignore)


def check_declaration(plan: Plan, architecture: Architecture) -> tuple[Module, ...]:
    """The modules that engines look up; raises what `declare` raises."""
    return _checked(plan, architecture)[0]


def _checked(plan: Plan, architecture: Architecture) -> tuple[tuple[Module, ...], Targets, list[str]]:
    """Modules, `targets` and `ignore`, each module found again by both."""
    modules = (*engine_modules(plan, architecture), *_tied_head(plan, architecture))
    _check_roles(plan)
    ignore = ignore_list(modules, architecture.part_ignores)
    check_ignore(modules, ignore)
    targets = targets_of(modules, formats_in_order(plan))
    check_targets(modules, targets)
    return modules, targets, ignore


def _tied_head(plan: Plan, architecture: Architecture) -> Iterator[Module]:
    """The head of a model that stores none, being the embedding again: engines build it as a linear layer all the same.

    transformers 5.17 makes an nn.Linear of it before weights are tied, which the target `Linear` would take.
    """
    if any(tensor.role is Role.LM_HEAD for tensor in plan.tensors):
        return
    rule = next((rule for rule in architecture.rules if rule.role is Role.LM_HEAD), None)
    ignore = None if rule is None else rule.ignore
    yield Module(_HEAD, _HEAD, Role.LM_HEAD, Part.TEXT, ignore or f"{_HEAD}$", None, architecture.renames)


def _block(plan: Plan, targets: Targets, ignore: Any) -> dict[str, Any]:
    formats = {name: plan.scheme.formats[name] for name in targets}
    return {
        "config_groups": {
            f"group_{number}": _group(formats[name], targets[name]) for number, name in enumerate(targets)
        },
        "format": storage_of(next(iter(formats.values()))),
        "ignore": ignore,
        **_CONSTANTS,
    }


def block_faults(block: Mapping[str, Any]) -> list[str]:
    """Where a stored block says what no plan's does."""
    wanted = {key: block.get(key) for key in _KEYS} | _CONSTANTS
    return list(_differences(block, wanted))


def declaration_faults(block: Mapping[str, Any], plan: Plan, architecture: Architecture | None) -> list[str]:
    """Where a stored block says something else than the plan did; module names only where an architecture is given."""
    try:
        wanted = declare(plan, architecture) if architecture is not None else _as_stored(block, plan)
    except (PlanError, UnsupportedError) as error:
        return [str(error)]
    return list(_differences(block, wanted))


def _as_stored(block: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The plan's block but for what takes module names: `targets` and `ignore` are the stored ones."""
    groups = block.get("config_groups")
    found = list(groups.values()) if isinstance(groups, dict) else []
    stored = [group["targets"] if isinstance(group, dict) and "targets" in group else [] for group in found]
    names = formats_in_order(plan)
    targets = dict(zip(names, [*stored, *([] for _ in names)], strict=False))
    return _block(plan, targets, block.get("ignore"))


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
    # As text, for 1 is neither true nor 1.0 to whoever reads it strictly. In order, for the experts' group comes first.
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True) and _names(found) == _names(wanted)


def _names(value: object) -> list[object]:
    return list(value) if isinstance(value, Mapping) else []


def _check_roles(plan: Plan) -> None:
    for tensor in plan.tensors:
        if tensor.format is not None and tensor.role in UNQUANTIZED_ROLES:
            raise UnsupportedError(
                f"rule {tensor.rule} quantizes {tensor.name}, but engines build no {tensor.role} quantized; keep it"
            )


def _group(format: Format, targets: list[str]) -> dict[str, Any]:
    return {
        "format": storage_of(format),
        "input_activations": activation_arguments(format.input_activations),
        "output_activations": activation_arguments(format.output_activations),
        "targets": targets,
        "weights": weight_arguments(format),
    }
