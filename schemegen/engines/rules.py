"""What engines do not take of one format in one use: read in vLLM 0.32, SGLang 0.5.23 and transformers 5.17.

vLLM and SGLang on NVIDIA GPUs. A rule answers with a reason that goes on from the engine's name, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from schemegen.architectures.base import Part
from schemegen.scheme import Format

_KERNEL_BITS: Final = (4, 8)
_PACKED, _INT8, _FP8 = "pack-quantized", "int-quantized", "float-quantized"
_NVFP4, _MXFP4, _MXFP8 = "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"
_W4AFP8_STEP: Final = 256


class Kind(StrEnum):
    """What engines have classes of their own for."""

    EXPERTS = "routed experts"
    HEAD = "the output head"
    LINEAR = "linear layers"


@dataclass(frozen=True, slots=True)
class Use:
    """One format in one use: its storage and the first group's, and where it is used.

    `shapes` are [rows, columns] of its matrices, `stacked` the rows of those that lie above another in a fused layer.
    """

    kind: Kind
    format: Format
    storage: str
    first_storage: str
    shapes: frozenset[tuple[int, int]]
    stacked: frozenset[int]
    parts: frozenset[Part]

    @property
    def experts(self) -> bool:
        """Whether these are routed experts, which engines run with kernels of their own."""
        return self.kind is Kind.EXPERTS

    @property
    def activations(self) -> str | None:
        """How activations are quantized, such as `float token`; None where they are not."""
        found = self.format.input_activations
        return None if found is None else f"{found.type} {found.strategy}"


Rule = Callable[[Use], str | None]


def _bits(use: Use) -> str | None:
    if use.storage != _PACKED or use.format.weights.num_bits in _KERNEL_BITS:
        return None
    return f"has no kernels for integers of {use.format.weights.num_bits} bits; take 4 or 8"


def _vllm_bits(use: Use) -> str | None:
    reason = _bits(use)
    return reason and f"needs its optional Humming kernels for integers of {use.format.weights.num_bits} bits"


def _weight_only_int(use: Use) -> str | None:
    alone = use.storage == _INT8 and use.activations is None
    return "takes int-quantized weights with quantized activations only; store them pack-quantized" if alone else None


def _int_strategy(use: Use) -> str | None:
    odd = use.storage == _INT8 and (use.format.weights.strategy, use.activations) != ("channel", "int token")
    # Of linear layers one scale a tensor will do.
    odd = odd and (use.experts or use.format.weights.strategy == "group")
    return "takes int-quantized weights by channel, with activations by token, only" if odd else None


def _packed_int8_activations(use: Use) -> str | None:
    odd = use.experts and use.storage == _PACKED and (use.activations or "").startswith("int")
    return "takes no packed experts with INT8 activations; leave input_activations out" if odd else None


def _w4afp8(use: Use) -> str | None:
    """vLLM's CUTLASS kernels of W4AFP8."""
    if use.storage != _PACKED or not (use.activations or "").startswith("float"):
        return None
    weights = use.format.weights
    if (weights.num_bits, weights.group_size, weights.symmetric) != (4, 128, True):
        return "takes FP8 activations beside symmetric INT4 of group_size 128 only"
    odd = use.experts and any(width % _W4AFP8_STEP for shape in use.shapes for width in shape)
    return f"needs widths that {_W4AFP8_STEP} divides for experts in INT4 with FP8 activations" if odd else None


def _fp8_experts(use: Use) -> str | None:
    if not use.experts or use.storage != _FP8:
        return None
    pair = use.format.weights.strategy, use.activations
    if use.activations is None:
        return "runs FP8 experts with FP8 activations only; add input_activations"
    fits = pair[0] == "block" or pair in (("channel", "float token"), ("tensor", "float tensor"))
    return None if fits else "takes FP8 experts by channel with activations by token, by tensor, or in blocks, only"


def _fp8_blocks(use: Use) -> str | None:
    """Blocks may not reach over the seam of two matrices that are run as one."""
    block = use.format.weights.block_structure
    if block is None or not any(rows % block[0] for rows in use.stacked):
        return None
    return f"needs rows that {block[0]} divides where it runs several matrices as one, as gate_proj and up_proj"


def _sglang_int8(use: Use) -> str | None:
    return "runs INT8 experts on NPUs only" if use.experts and use.storage == _INT8 else None


def _sglang_packed(use: Use) -> str | None:
    """Packed INT4 beside activations is for experts, and those read the format of the first group."""
    if use.storage != _PACKED:
        return None
    if not use.experts:
        return "quantizes activations beside packed integers for experts only" if use.activations else None
    if use.activations and (use.format.weights.num_bits, use.format.weights.symmetric) != (4, True):
        return "quantizes activations beside symmetric INT4 experts only"
    if use.first_storage != _PACKED:
        return f"takes packed experts only where the format on top is {_PACKED}; it is that of most experts"
    return None


def _sglang_float(use: Use) -> str | None:
    if use.storage == _MXFP8:
        return "does not read MXFP8 from compressed-tensors"
    if use.storage == _MXFP4 and not use.experts:
        return "reads MXFP4 from compressed-tensors for experts only"
    if use.storage == _FP8 and use.format.weights.strategy == "block":
        if use.kind is Kind.HEAD:
            return "takes no output head in blocks; scale it by channel"
        return None if use.activations else "takes FP8 in blocks with FP8 activations only"
    return None


def _sglang_int_linear(use: Use) -> str | None:
    odd = use.storage == _INT8 and not use.experts and use.format.weights.num_bits != 8
    return "runs int-quantized layers of 8 bits only" if odd else None


def _vision(use: Use) -> str | None:
    return "builds the vision tower unquantized" if Part.VISION in use.parts else None


def _transformers_experts(use: Use) -> str | None:
    """transformers decodes experts while it stacks them, from codes and one kind of scale."""
    if not use.experts or Part.TEXT not in use.parts:
        return None
    weights = use.format.weights
    if use.storage in (_NVFP4, _MXFP8, _INT8):
        return f"decodes no {use.storage} experts"
    if use.storage == _PACKED and not weights.symmetric:
        return "decodes symmetric experts only"
    return "decodes no experts in blocks" if weights.strategy == "block" else None


_BOTH: Final[tuple[Rule, ...]] = (_weight_only_int, _int_strategy, _fp8_experts, _fp8_blocks)
RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "vLLM": (*_BOTH, _vllm_bits, _packed_int8_activations, _w4afp8),
    "SGLang": (_vision, *_BOTH, _bits, _sglang_int8, _sglang_packed, _sglang_float, _sglang_int_linear),
    "transformers": (_transformers_experts,),
}
