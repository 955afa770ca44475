"""What engines do not take of one format in one use: vLLM 0.32, SGLang 0.5.23 and transformers 5.17.

Run, by `tests_engines`, are transformers' refusals of asymmetric, NVFP4, MXFP8 and FP8-block experts. All others were
only read in the sources; those of vLLM and SGLang are about NVIDIA GPUs. A rule answers with a reason that goes on from
the engine's name, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from schemegen.architectures.base import Part
from schemegen.engines.uses import UNQUANTIZED, Kind, Use

_KERNEL_BITS: Final = (4, 8)
_PACKED, _INT8, _FP8 = "pack-quantized", "int-quantized", "float-quantized"
_NVFP4, _MXFP4, _MXFP8 = "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"
_W4AFP8_STEP: Final = 256
#: Groups that Marlin has kernels for; None is one scale a row.
_MARLIN_GROUPS: Final = (None, 32, 64, 128)
#: vLLM's Triton kernels of linear layers in INT4 have these too.
_TRITON_GROUPS: Final = (256,)
#: Machete's groups, the only kernels that vLLM comes with for asymmetric INT8.
_MACHETE_GROUPS: Final = (None, 64, 128)
_BLOCK: Final = (128, 128)


Rule = Callable[[Use], str | None]
Rules = Mapping[str, tuple[Rule, ...]]
"""By engine."""

_BY_BLOCK: Final = "FP8 by group, as wide as a block"
_INT8_TOKEN: Final = "INT8 by token"
_FP8_TOKEN: Final = "FP8 by token"
_FP8_PLAIN: Final = (UNQUANTIZED, _FP8_TOKEN, "FP8 by tensor")
_OF_INT8: Final = (_INT8_TOKEN, f"asymmetric {_INT8_TOKEN}")
#: By storage and strategy of the weights, the activations that vLLM and SGLang run beside them: of experts, of others.
#: Several classes of theirs look at neither bits nor types, and would run something else than what is declared.
_RUN: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]] = {
    (_INT8, "channel"): ((_INT8_TOKEN,), _OF_INT8),
    (_INT8, "tensor"): ((), _OF_INT8),
    (_INT8, "group"): ((), ()),
    (_FP8, "channel"): ((_FP8_TOKEN,), _FP8_PLAIN),
    (_FP8, "tensor"): (("FP8 by tensor",), _FP8_PLAIN),
    (_FP8, "block"): ((_BY_BLOCK,), (_BY_BLOCK, UNQUANTIZED)),
    (_NVFP4, "tensor_group"): ((UNQUANTIZED,), (UNQUANTIZED,)),
    (_MXFP4, "group"): ((UNQUANTIZED, "FP4 by group of 32"), (UNQUANTIZED, "FP4 by group of 32")),
    (_MXFP8, "group"): (("FP8 by group of 32",), ("FP8 by group of 32",)),
}


def _pairs(use: Use) -> str | None:
    """Weights and activations that have a class in vLLM and in SGLang, packed integers aside."""
    pairs = _RUN.get((use.storage, use.format.weights.strategy))
    if pairs is None or use.activations in (run := pairs[0 if use.experts else 1]):
        return None
    hint = "; store them pack-quantized" if (use.storage, use.activations) == (_INT8, UNQUANTIZED) else ""
    told = f"runs {use.words} only with activations that are {' or '.join(run)}" if run else f"runs no {use.words}"
    return told + hint


def _int_bits(use: Use) -> str | None:
    odd = use.storage == _INT8 and use.format.weights.num_bits != 8
    return f"runs {_INT8} weights of 8 bits only" if odd else None


def _fp8_blocks(use: Use) -> str | None:
    """Blocks may not reach over the seam of two matrices that are run as one."""
    block = use.format.weights.block_structure
    if block is None or not any(rows % block[0] for rows in use.stacked):
        return None
    return f"needs rows that {block[0]} divides where it runs several matrices as one, as gate_proj and up_proj"


def _fp8_head(use: Use) -> str | None:
    """vLLM's loader and SGLang's class of the head know scales by row or by tensor."""
    odd = use.kind is Kind.HEAD and use.format.weights.block_structure is not None
    return "takes no output head in blocks; scale it by channel" if odd else None


def _vllm_block_size(use: Use) -> str | None:
    """Experts in any blocks get kernels for 128x128, and so do linear layers from Marlin."""
    odd = use.format.weights.block_structure not in (None, _BLOCK)
    return "has kernels for FP8 in blocks of 128x128 only" if odd else None


def _vllm_packed(use: Use) -> str | None:
    """vLLM's CUTLASS kernels of W4AFP8, and which other activations it has a class for."""
    if use.storage != _PACKED or use.activations == UNQUANTIZED:
        return None
    if not use.activations.startswith("FP"):
        if use.experts:
            return "takes no packed experts with INT8 activations; leave input_activations out"
        return None if _is_humming(use) else "takes symmetric INT8 or INT4 activations by token beside packed integers"
    weights = use.format.weights
    if (weights.num_bits, weights.group_size, weights.symmetric, use.activations) != (4, 128, True, _FP8_TOKEN):
        return "takes FP8 activations, by token, beside symmetric INT4 of group_size 128 only"
    odd = use.experts and any(width % _W4AFP8_STEP for shape in use.shapes for width in shape)
    return f"needs widths that {_W4AFP8_STEP} divides for experts in INT4 with FP8 activations" if odd else None


def _is_humming(use: Use) -> bool:
    return use.activations.startswith(("INT8 by token", "INT4 by token", "INT8 by group", "INT4 by group"))


def _is_weight_only(use: Use) -> bool:
    return use.storage == _PACKED and use.activations == UNQUANTIZED


def _has_marlin_type(use: Use) -> bool:
    """Marlin has no kernels for asymmetric INT8."""
    weights = use.format.weights
    return weights.num_bits == 4 or (weights.num_bits == 8 and weights.symmetric)


def _vllm_channel(use: Use) -> str | None:
    odd = use.experts and _is_weight_only(use) and use.format.weights.group_size is None
    if not odd or _has_marlin_type(use):
        return None
    return "runs packed experts by channel in INT4 or symmetric INT8 only; take groups"


def _vllm_pairs(use: Use) -> str | None:
    return None if _is_mxfp4_fp8(use) else _pairs(use)


def _is_mxfp4_fp8(use: Use) -> bool:
    return use.storage == _MXFP4 and use.activations in (_FP8_TOKEN, "FP8 by group of 128")


def _vllm_option(use: Use) -> str | None:
    """What vLLM runs with kernels that are not installed with it, or on some GPUs alone."""
    weights, size = use.format.weights, use.format.weights.group_size
    if _is_mxfp4_fp8(use):
        return "needs its optional Humming kernels for FP8 activations beside MXFP4"
    if use.storage == _PACKED and not use.experts and _is_humming(use):
        return "needs its optional Humming kernels for INT activations beside packed integers"
    if not _is_weight_only(use):
        return None
    humming = f"needs its optional Humming kernels for {use.integers}"
    if _has_marlin_type(use):
        known = _MARLIN_GROUPS + (_TRITON_GROUPS if weights.num_bits == 4 else ())
        return humming if size not in known and not use.experts else None
    on_hopper = weights.num_bits == 8 and not use.experts and size in _MACHETE_GROUPS
    return f"runs {use.integers} on Hopper (SM90); elsewhere it {humming}" if on_hopper else humming


def _vllm_triton(use: Use) -> str | None:
    odd = use.experts and _is_weight_only(use) and _has_marlin_type(use)
    if not odd or use.format.weights.group_size in _MARLIN_GROUPS:
        return None
    return f"has no Marlin kernels for {use.integers}; it runs them with Triton"


def _sglang_packed(use: Use) -> str | None:
    """Marlin's integers; packed experts read the format of the first group."""
    if use.storage != _PACKED:
        return None
    if use.format.weights.num_bits not in _KERNEL_BITS:
        return f"has no kernels for integers of {use.format.weights.num_bits} bits; take 4 or 8"
    if use.activations != UNQUANTIZED:
        return None
    if not _has_marlin_type(use):
        return f"has no kernels for {use.integers}; take symmetric ones"
    known = use.format.weights.group_size in _MARLIN_GROUPS
    return None if known else f"has no kernels for {use.integers}; take groups of 32, 64 or 128"


def _sglang_w4afp8(use: Use) -> str | None:
    """Its CUTLASS kernels count on groups of 128 and quantize to FP8 by token, whatever is declared."""
    if use.storage != _PACKED or use.activations == UNQUANTIZED:
        return None
    if not use.experts:
        return "quantizes activations beside packed integers for experts only"
    weights = use.format.weights
    fits = (weights.num_bits, weights.group_size, weights.symmetric, use.activations) == (4, 128, True, _FP8_TOKEN)
    return (
        None if fits else "quantizes activations, to FP8 by token, beside symmetric INT4 experts of group_size 128 only"
    )


def _sglang_first(use: Use) -> str | None:
    odd = use.storage == _PACKED and use.experts and use.first_storage != _PACKED
    return (
        f"takes packed experts only where the format on top is {_PACKED}; it is that of most experts" if odd else None
    )


def _sglang_float(use: Use) -> str | None:
    if use.storage == _MXFP8:
        return "does not read MXFP8 from compressed-tensors"
    if use.storage == _MXFP4 and not use.experts:
        return "reads MXFP4 from compressed-tensors for experts only"
    alone = use.format.weights.strategy == "block" and use.activations == UNQUANTIZED and not use.experts
    return "takes FP8 in blocks with FP8 activations only" if alone else None


def _sglang_int8(use: Use) -> str | None:
    return "runs INT8 experts on NPUs only" if use.experts and use.storage == _INT8 else None


def _sglang_block_size(use: Use) -> str | None:
    odd = use.format.weights.block_structure not in (None, _BLOCK)
    return "runs FP8 in blocks other than 128x128 with its Triton kernels" if odd else None


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


def _transformers_blocks(use: Use) -> str | None:
    """Up to 0.17 compressed-tensors guesses blocks from the shapes of weights and scales."""
    block = use.format.weights.block_structure
    if block is None or not any(_is_misread(shape, block) for shape in use.shapes):
        return None
    return "needs compressed-tensors newer than 0.17 for matrices that are one block wide or end within a block"


def _is_misread(shape: tuple[int, int], block: tuple[int, int]) -> bool:
    return shape[1] <= block[1] or any(length % size for length, size in zip(shape, block, strict=True))


_BOTH: Final[tuple[Rule, ...]] = (_int_bits, _fp8_blocks, _fp8_head)
#: Why an engine does not take a format.
RULES: Final[Rules] = {
    "vLLM": (_vllm_pairs, *_BOTH, _vllm_block_size, _vllm_packed, _vllm_channel),
    "SGLang": (_vision, _pairs, *_BOTH, _sglang_int8, _sglang_packed, _sglang_w4afp8, _sglang_first, _sglang_float),
    "transformers": (_transformers_experts,),
}
#: What an engine takes a format with.
REMARKS: Final[Rules] = {
    "vLLM": (_vllm_option, _vllm_triton),
    "SGLang": (_sglang_block_size,),
    "transformers": (_transformers_blocks,),
}
