"""Round to nearest with fused CPU kernels, or with torch: bit for bit what llm-compressor's model_free_ptq computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from schemegen.backends.base import Buffers, Job, NonFiniteWeight, WeightBackend, Weights
from schemegen.backends.lacks import Lack
from schemegen.codecs import codec_of
from schemegen.compilation import uses_of
from schemegen.errors import UnsupportedError
from schemegen.formats import rounding_fault
from schemegen.formats.words import in_short
from schemegen.kernels.torch_check import torch_fault
from schemegen.peer import PEER, peer_difference

if TYPE_CHECKING:
    from schemegen.planner import Plan
    from schemegen.scheme import Format


class NativeRtn(WeightBackend):
    """Data-free round to nearest into every storage format.

    Common widths and sizes have fused CPU kernels; torch does the others, and all of them on a GPU, with the same bits.
    """

    name: ClassVar[str] = "native-rtn"
    summary: ClassVar[str] = "round to nearest, data-free: fused CPU kernels, or torch on a GPU"
    versions: ClassVar[tuple[str, ...]] = ("numba", "numpy")
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def refuses(self, format: Format) -> str | None:
        """Why the format cannot be computed here, or None."""
        return rounding_fault(format) or _codec_fault(format)

    def refuses_weights(self, format: Format, dtype: str, columns: int) -> str | None:
        """What of these weights has no fused kernel needs torch."""
        return _torch_fault(format, f"{dtype} to ") if codec_of(format).needs_torch(dtype, columns) else None

    def prepare(self, job: Job) -> None:
        """Load, at the very first run compile, the kernels that the plan needs."""
        if job.device == "cpu":
            for codec, dtype, columns in uses_of(job.plan):
                codec.warm_up(dtype, columns)

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        """Fill all of `out`."""
        fault = codec_of(format).encode(weights.bits, weights.dtype, out, weights.shared, weights.device)
        if fault >= 0:
            raise NonFiniteWeight(fault)

    def same_bits_as(self, plan: Plan) -> str | None:
        """llm-compressor, where it knows the formats and fuses what engines fuse."""
        return PEER if peer_difference(plan) is None else None

    def recorded(self, plan: Plan) -> tuple[str, ...]:
        """What decides the bits on any device: the fused kernels for all that they know, torch for the rest."""
        torch = {codec.needs_torch(dtype, columns) for codec, dtype, columns in uses_of(plan)}
        return (*(["numba"] if False in torch else []), "numpy", *(["torch"] if True in torch else []))


def _codec_fault(format: Format) -> str | None:
    try:
        codec = codec_of(format)
    except UnsupportedError as error:
        return str(error)
    return _torch_fault(format) if codec.needs_torch() else None


def _torch_fault(format: Format, what: str = "") -> str | None:
    fault = torch_fault()
    return None if fault is None else Lack(f"computes {what}{in_short(format)} with torch, which {fault}")
