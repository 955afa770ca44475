"""Round to nearest with fused CPU kernels, or with torch: bit for bit what llm-compressor's model_free_ptq computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from schemegen.backends.base import Buffers, Job, NonFiniteWeight, WeightBackend, Weights
from schemegen.formats import group_of, storage_of
from schemegen.kernels.integers import INSTALL_TORCH, INT_BITS, has_torch, is_fused, quantize_int

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

    def __init__(self) -> None:
        self._recorded = self.versions

    def refuses(self, format: Format) -> str | None:
        """Why the format cannot be computed here, or None."""
        if storage_of(format) != "pack-quantized":
            return f"stores pack-quantized only, not {storage_of(format)}"
        if format.input_activations or format.output_activations:
            return "quantizes weights only"
        return _weights_fault(format.weights)

    def prepare(self, job: Job) -> None:
        """Load, at the very first run compile, the kernels that the plan needs."""
        kernels = set(_kernels(job.plan))
        fused = {(dtype, bits, group) for dtype, bits, group in kernels if is_fused(bits, group)}
        # What decides the bits, whatever computes them: the fused kernels for all that they know, torch for the rest.
        self._recorded = (*(["numba"] if fused else []), "numpy", *(["torch"] if kernels - fused else []))
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

    def recorded(self) -> tuple[str, ...]:
        """numba, torch or both, by what the plan's formats are rounded with."""
        return self._recorded


def _kernels(plan: Plan) -> Iterator[tuple[str, int, int]]:
    """(dtype, bits, group size) of every matrix to quantize."""
    for tensor in plan.tensors:
        if tensor.format is not None:
            weights = plan.format_of(tensor).weights
            yield tensor.source.dtype, weights.num_bits, group_of(weights, tensor.matrix_shape[1])


def _weights_fault(weights: Quantization) -> str | None:
    if weights.type != "int" or weights.num_bits not in INT_BITS or not weights.symmetric:
        return f"offers symmetric integers of {INT_BITS[0]} to {INT_BITS[-1]} bits only"
    if weights.strategy not in ("group", "channel"):
        return f"offers the strategies group and channel, not {weights.strategy}"
    odd = {
        "narrow_range": weights.narrow_range,
        "dynamic": weights.dynamic,
        "actorder": weights.actorder is not None,
        "observer": weights.observer not in (None, "minmax"),
        "observer_kwargs": bool(weights.observer_kwargs),
        "scale_dtype": weights.scale_dtype is not None,
        "zp_dtype": weights.zp_dtype is not None,
    }
    if name := next((name for name, given in odd.items() if given), None):
        return f"does not offer {name} yet"
    if not is_fused(weights.num_bits, weights.group_size) and not has_torch():
        return f"computes {_described(weights)} with torch, which is not installed: {INSTALL_TORCH}"
    return None


def _described(weights: Quantization) -> str:
    return f"INT{weights.num_bits}" + (f" in groups of {weights.group_size}" if weights.group_size else "")
