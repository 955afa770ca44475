"""Quantized models that compressed-tensors did not make: what they are, and which scheme comes near."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.quantized import find_quantization
from schemegen.errors import UnsupportedError, shortened

_OURS: Final = "compressed-tensors"
#: By quant_method: what it is, and a shipped scheme that is alike.
_KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    "fp8": ("FP8 in the layout of DeepSeek's and Qwen's releases", "fp8-block"),
    "fbgemm_fp8": ("FP8 in FBGEMM's layout", "fp8-dynamic"),
    "gptq": ("GPTQ in a layout of its own", "w4a16-g128"),
    "awq": ("AWQ in a layout of its own", "w4a16-g128-asym"),
    "auto-round": ("AutoRound in a layout of its own", "w4a16-g128"),
    "mxfp4": ("MXFP4 in the layout of gpt-oss", "mxfp4a16-experts"),
    "modelopt": ("NVIDIA ModelOpt's layout", "nvfp4a16-experts"),
    "modelopt_fp4": ("NVIDIA ModelOpt's layout", "nvfp4a16-experts"),
    "bitsandbytes": ("blocks of bitsandbytes", "w4a16-g64"),
    "quark": ("AMD Quark's layout", "w4a16-g128"),
}


def refuse_method(model_id: str, place: str, method: object) -> None:
    """UnsupportedError for a quant_method other than compressed-tensors."""
    if method == _OURS:
        return
    told = "names no quant_method" if method is None else f"has the quant_method {shortened(str(method))}"
    known = _KNOWN.get(method) if isinstance(method, str) else None
    what, near = known or ("a layout that is not read", None)
    example = f"; a scheme that comes near is {near}" if near else ""
    raise UnsupportedError(
        f"{model_id}: {place} {told} ({what}), and schemes are told from {_OURS} checkpoints alone{example}"
    )


def refuse_unquantized(checkpoint: Checkpoint) -> NoReturn:
    """UnsupportedError for a checkpoint without a quantization_config, whether or not its tensors are quantized."""
    if found := find_quantization(checkpoint):
        raise UnsupportedError(
            f"{checkpoint.model_id} has no quantization_config, though {found}; "
            f"schemes are told from {_OURS} checkpoints alone"
        )
    raise UnsupportedError(
        f"{checkpoint.model_id} is not quantized: its config.json has no quantization_config; "
        "give a quantized model, or take a scheme by name"
    )
