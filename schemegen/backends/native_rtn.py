"""Round to nearest with fused CPU kernels, or with torch: bit for bit what llm-compressor's model_free_ptq computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from schemegen.backends.base import Buffers, Job, NonFiniteWeight, WeightBackend, Weights
from schemegen.formats import group_of, plain_integer_fault
from schemegen.kernels.integers import is_fused, quantize_int, torch_fault

if TYPE_CHECKING:
    from schemegen.planner import Plan
    from schemegen.scheme import Format, Quantization


class NativeRtn(WeightBackend):
    """Data-free round to nearest: symmetric INT2 to INT8, group or channel, stored pack-quantized.

    INT4 and INT8 have fused CPU kernels; torch does the other widths, and every width on a GPU, with the same bits.
    """

    name: ClassVar[str] = "native-rtn"
    summary: ClassVar[str] = "round to nearest, data-free: fused CPU kernels, or torch on a GPU"
    versions: ClassVar[tuple[str, ...]] = ("numba", "numpy")
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    same_bits_as: ClassVar[str | None] = "llm-compressor"

    def refuses(self, format: Format) -> str | None:
        """Why the format cannot be computed here, or None."""
        return plain_integer_fault(format) or _torch_fault(format.weights)

    def prepare(self, job: Job) -> None:
        """Load, at the very first run compile, the kernels that the plan needs."""
        fused = {kernel for kernel in _kernels(job.plan) if is_fused(*kernel[1:])}
        if job.device == "cpu" and fused:
            from schemegen.kernels.cpu import warm_up

            for kernel in fused:
                warm_up(*kernel)

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        """Fill weight_packed and weight_scale."""
        columns = weights.bits.shape[-1]
        packed, scale = out["weight_packed"], out["weight_scale"]
        fault = quantize_int(
            weights.bits.reshape(-1, columns),
            weights.dtype,
            format.weights.num_bits,
            group_of(format.weights, columns),
            packed.reshape(-1, packed.shape[-1]),
            scale.reshape(-1, scale.shape[-1]),
            weights.device,
        )
        if fault >= 0:
            raise NonFiniteWeight(fault)

    def recorded(self, plan: Plan) -> tuple[str, ...]:
        """What decides the bits on any device: the fused kernels for all that they know, torch for the rest."""
        fused = {is_fused(bits, group) for _, bits, group in _kernels(plan)}
        return (*(["numba"] if True in fused else []), "numpy", *(["torch"] if False in fused else []))


def _kernels(plan: Plan) -> Iterator[tuple[str, int, int]]:
    """(dtype, bits, group size) of every matrix to quantize."""
    for tensor in plan.tensors:
        if tensor.format is not None:
            weights = plan.format_of(tensor).weights
            yield tensor.source.dtype, weights.num_bits, group_of(weights, tensor.matrix_shape[1])


def _torch_fault(weights: Quantization) -> str | None:
    if is_fused(weights.num_bits, weights.group_size):
        return None
    fault = torch_fault()
    return None if fault is None else f"computes {_described(weights)} with torch, which {fault}"


def _described(weights: Quantization) -> str:
    return f"INT{weights.num_bits}" + (f" in groups of {weights.group_size}" if weights.group_size else "")
