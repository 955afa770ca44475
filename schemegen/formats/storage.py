"""Which storage format holds which quantization, as compressed-tensors infers it and as its compressors write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemegen.kernels.grids import INT_BITS
from schemegen.scheme import Format, Quantization

#: Observers that search the clip ratio over a whole matrix, as llm-compressor's `memoryless_mse` does.
MSE_OBSERVERS: Final = ("mse",)
_MX_GROUP: Final = 32
_NVFP4_GROUP: Final = 16
# What scales are stored as, where it is not the weights' dtype.
_SCALE_DTYPES: Final = {
    "nvfp4-pack-quantized": "float8_e4m3fn",
    "mxfp4-pack-quantized": "uint8",
    "mxfp8-quantized": "uint8",
}


def storage_of(format: Format) -> str:
    """The compressed-tensors storage format: as given, or inferred as compressed-tensors infers it."""
    if format.storage is not None:
        return format.storage
    if format.weights.type == "int":
        return "pack-quantized" if format.input_activations is None else "int-quantized"
    return float_storage_of(format.weights)


def float_storage_of(values: Quantization) -> str:
    """The storage format that such floats are inferred to have; of activations, that of weights like them."""
    if values.num_bits == 4:
        return "mxfp4-pack-quantized" if values.group_size == _MX_GROUP else "nvfp4-pack-quantized"
    is_mx = values.group_size == _MX_GROUP and values.scale_dtype == "uint8"
    return "mxfp8-quantized" if is_mx else "float-quantized"


def scale_dtype_of(format: Format) -> str | None:
    """The dtype of stored scales, whether the scheme names it or the storage implies it; None for the weights' own."""
    return _SCALE_DTYPES.get(storage_of(format), format.weights.scale_dtype)


def is_searched(weights: Quantization) -> bool:
    """Whether ranges are searched for over whole matrices."""
    return weights.observer in MSE_OBSERVERS


def storage_fault(format: Format) -> str | None:
    """Why the storage format does not hold weights that are quantized so, or None."""
    storage = storage_of(format)
    rules = _RULES.get(storage)
    if rules is None:
        return f"storage {storage!r} is not offered; {', '.join(_RULES)} are"
    weights = format.weights
    if weights.dynamic:
        return "weights cannot be dynamic"
    return next((f"{storage} {told}" for holds, told in rules if not holds(weights)), None)


_Rules = tuple[tuple[Callable[[Quantization], bool], str], ...]


def _is_float(num_bits: int) -> Callable[[Quantization], bool]:
    return lambda weights: weights.type == "float" and weights.num_bits == num_bits


def _is_int(weights: Quantization) -> bool:
    return weights.type == "int" and weights.num_bits in INT_BITS


def _strategy(*names: str) -> Callable[[Quantization], bool]:
    return lambda weights: weights.strategy in names


def _group(size: int, storage: str) -> Callable[[Quantization], bool]:
    scale_dtype = _SCALE_DTYPES[storage]
    return lambda weights: weights.group_size == size and weights.scale_dtype in (None, scale_dtype)


def _plain_scale(weights: Quantization) -> bool:
    return weights.scale_dtype is None


def _is_symmetric(weights: Quantization) -> bool:
    return weights.symmetric


_SYMMETRIC: Final = (_is_symmetric, "holds symmetric weights only")
_SCALES: Final = (_plain_scale, "has scales of the weights' dtype: leave scale_dtype out")

_RULES: Final[dict[str, _Rules]] = {
    "pack-quantized": (
        (_is_int, f"holds integers of {INT_BITS[0]} to {INT_BITS[-1]} bits"),
        (_strategy("group", "channel"), "takes the strategies group and channel"),
        _SCALES,
    ),
    "int-quantized": (
        (_is_int, f"holds integers of {INT_BITS[0]} to {INT_BITS[-1]} bits"),
        (_strategy("channel", "tensor", "group"), "takes the strategies channel, tensor and group"),
        _SYMMETRIC,
        _SCALES,
    ),
    "float-quantized": (
        (_is_float(8), "holds floats of 8 bits (FP8 E4M3)"),
        (_strategy("tensor", "channel", "block"), "takes the strategies tensor, channel and block"),
        _SYMMETRIC,
        _SCALES,
    ),
    "nvfp4-pack-quantized": (
        (_is_float(4), "holds floats of 4 bits (FP4 E2M1)"),
        (_strategy("tensor_group"), "takes the strategy tensor_group"),
        (_group(_NVFP4_GROUP, "nvfp4-pack-quantized"), "has group_size 16 and scale_dtype float8_e4m3fn"),
        _SYMMETRIC,
    ),
    "mxfp4-pack-quantized": (
        (_is_float(4), "holds floats of 4 bits (FP4 E2M1)"),
        (_strategy("group"), "takes the strategy group"),
        (_group(_MX_GROUP, "mxfp4-pack-quantized"), "has group_size 32 and scale_dtype uint8 (E8M0)"),
        _SYMMETRIC,
    ),
    "mxfp8-quantized": (
        (_is_float(8), "holds floats of 8 bits (FP8 E4M3)"),
        (_strategy("group"), "takes the strategy group"),
        (_group(_MX_GROUP, "mxfp8-quantized"), "has group_size 32 and scale_dtype uint8 (E8M0)"),
        _SYMMETRIC,
    ),
}
