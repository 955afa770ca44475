"""Round to nearest on the CPU with fused kernels: bit for bit what llm-compressor's model_free_ptq computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from schemegen.backends.base import Buffers, Job, NonFiniteWeight, WeightBackend, Weights
from schemegen.formats import group_of, storage_of

if TYPE_CHECKING:
    from schemegen.scheme import Format, Quantization

_BITS: Final = (4, 8)


class NativeRtn(WeightBackend):
    """Data-free round to nearest: symmetric INT4 and INT8, group or channel, stored pack-quantized."""

    name: ClassVar[str] = "native-rtn"
    summary: ClassVar[str] = "round to nearest, data-free, fused CPU kernels"
    versions: ClassVar[tuple[str, ...]] = ("numba", "numpy")

    def refuses(self, format: Format) -> str | None:
        """Why there is no kernel for the format, or None."""
        if storage_of(format) != "pack-quantized":
            return f"stores pack-quantized only, not {storage_of(format)}"
        if format.input_activations or format.output_activations:
            return "quantizes weights only"
        return _weights_fault(format.weights)

    def prepare(self, job: Job) -> None:
        """Load, at the very first run compile, the kernels that the plan needs."""
        from schemegen.kernels.cpu import warm_up

        for tensor in job.plan.tensors:
            if tensor.format is not None:
                weights = job.plan.format_of(tensor).weights
                warm_up(tensor.source.dtype, weights.num_bits, group_of(weights, tensor.matrix_shape[1]))

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        """Fill weight_packed and weight_scale."""
        from schemegen.kernels.cpu import quantize_int

        columns = weights.bits.shape[-1]
        packed, scale = out["weight_packed"], out["weight_scale"]
        fault = quantize_int(
            weights.bits.reshape(-1, columns),
            weights.dtype,
            format.weights.num_bits,
            group_of(format.weights, columns),
            packed.reshape(-1, packed.shape[-1]),
            scale.reshape(-1, scale.shape[-1]),
        )
        if fault >= 0:
            raise NonFiniteWeight(fault)


def _weights_fault(weights: Quantization) -> str | None:
    if weights.type != "int" or weights.num_bits not in _BITS or not weights.symmetric:
        return "has kernels for symmetric INT4 and INT8 only"
    if weights.strategy not in ("group", "channel"):
        return f"has kernels for the strategies group and channel, not {weights.strategy}"
    per_word = 32 // weights.num_bits
    if weights.group_size is not None and weights.group_size % per_word:
        return f"packs {per_word} codes into a word: group_size {weights.group_size} is no multiple of {per_word}"
    odd = {
        "narrow_range": weights.narrow_range,
        "dynamic": weights.dynamic,
        "actorder": weights.actorder is not None,
        "observer": weights.observer not in (None, "minmax"),
        "observer_kwargs": bool(weights.observer_kwargs),
        "scale_dtype": weights.scale_dtype is not None,
        "zp_dtype": weights.zp_dtype is not None,
    }
    return next((f"does not offer {name} yet" for name, given in odd.items() if given), None)
