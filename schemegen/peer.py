"""llm-compressor's model_free_ptq (0.14): how it is told of a format, and where it computes other bits, or none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

from schemegen.formats import (
    SIGNED_MSE,
    Shared,
    is_searched,
    observer_of,
    rounding_fault,
    scale_dtype_of,
    shared_of,
    storage_of,
)
from schemegen.planner import Plan
from schemegen.scheme import Format, Quantization

#: The release that the tests compare with.
RELEASE: Final = "0.14.0.1"
#: What a backend says of itself whose bits are its.
PEER: Final = "llm-compressor"
#: Modules that get one global scale, as its DEFAULT_FUSED_MAPPINGS has them: parents, and the last words of a set.
#: Names that it matches only within one file (`cross_attn.q_proj`) are in no set; `_matched` alone knows them.
_SETS: Final = (
    (re.compile(r"(?:.*\.)?(?:attn|attention|self_attn|self_attention)"), ("q_proj", "k_proj", "v_proj")),
    (re.compile(r"(?:.*\.)?(?:attn|attention|self_attn)"), ("wq_a", "wkv_a_with_mqa")),
    (re.compile(r"(?:.*\.)?mlp"), ("gate_proj", "up_proj")),
    (re.compile(r".*"), ("w1", "w3")),
)
_MATCHED: Final = re.compile(
    r".*((attn|attention)\.(q_proj|k_proj|v_proj|wq_a|wkv_a_with_mqa)|mlp\.(gate_proj|up_proj)|w1|w3)"
)
#: The fields of QuantizationArgs that decide the bits; all others stay at their defaults, or are refused.
_FIELDS: Final = ("num_bits", "type", "strategy", "group_size", "block_structure", "symmetric", "dynamic")


def scheme_words(format: Format) -> dict[str, Any]:
    """The keywords of compressed-tensors' QuantizationScheme, as JSON values; targets are left to say.

    An observer is named where it searches: `mse` of weights it does not know.
    """
    storage, weights = storage_of(format), _arguments(format.weights)
    # What schemegen takes for granted, compressed-tensors has to be told.
    if dtype := scale_dtype_of(format):
        weights["scale_dtype"] = dtype
    if searches(format):
        weights["observer"] = "memoryless_mse"
    activations = format.input_activations
    beside = {} if activations is None else {"input_activations": _arguments(activations)}
    return {"weights": weights, **beside, "format": storage}


def searches(format: Format) -> bool:
    """Whether it searches the clip ratio: over a whole matrix on a CPU, elsewhere otherwise."""
    return is_searched(format.weights)


def _arguments(values: Quantization) -> dict[str, Any]:
    """The keywords of compressed-tensors' QuantizationArgs, less those that are not given."""
    given = {name: getattr(values, name) for name in _FIELDS}
    return {name: value for name, value in given.items() if value not in (None, False) or name == "symmetric"}


def rounding_difference(format: Format) -> str | None:
    """What keeps it from computing the format's bits, whatever the model; None where nothing does."""
    if format.weights.narrow_range:
        return "has no narrow_range"
    if observer_of(format.weights) == SIGNED_MSE:
        return f"has no observer {SIGNED_MSE}"
    return None


def saving_difference(format: Format) -> str | None:
    """What keeps it from writing what it computed: blocks come out strided, which safetensors does not take."""
    return "cannot save the strategy block" if format.weights.strategy == "block" else None


def fusion_difference(plan: Plan) -> str | None:
    """A module whose global scale it makes over other matrices than the plan does; None where there is none."""
    modules = list(_fused_modules(plan))
    ours, theirs = _sets(modules, plan.layer_of), _sets(modules, _set_of)
    for module in modules:
        mine, other = ours[plan.layer_of(module)], theirs[_set_of(module)]
        if mine != other or not _is_complete(module, other):
            return f"makes the global scale of {module} over other matrices than engines fuse"
    return None


def peer_difference(plan: Plan) -> str | None:
    """The first thing that keeps a plan's bits from being its own, or None."""
    formats = plan.formats_used.values()
    differences = (rounding_fault, rounding_difference, saving_difference)
    found = [difference(format) for format in formats for difference in differences]
    return next(filter(None, found), None) or fusion_difference(plan)


def _fused_modules(plan: Plan) -> Iterator[str]:
    """Every module whose scales depend on those that it is fused with."""
    for tensor in plan.tensors:
        if tensor.format is not None and shared_of(plan.format_of(tensor)) is Shared.FUSED:
            yield from tensor.modules


def _sets(modules: list[str], key_of: Callable[[str], Hashable]) -> dict[Hashable, set[str]]:
    found: dict[Hashable, set[str]] = defaultdict(set)
    for module in modules:
        found[key_of(module)].add(module)
    return found


def _set_of(module: str) -> Hashable:
    """Equal for the modules of one of its sets; else the module."""
    parent, _, last = module.rpartition(".")
    return next(((parent, words) for parents, words in _SETS if last in words and parents.fullmatch(parent)), module)


def _is_complete(module: str, members: set[str]) -> bool:
    """Whether it takes the set for one: all of it is there, or it knows of none."""
    found = _set_of(module)
    return len(members) == len(found[1]) if isinstance(found, tuple) else not _MATCHED.fullmatch(module)
