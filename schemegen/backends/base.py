"""The backend contract: fill buffers that the house owns with what the plan names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from operator import index as as_int
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from schemegen.codecs.places import unraveled
from schemegen.errors import CheckpointError
from schemegen.kernels.floats import first_nonfinite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import BaseModel

    from schemegen.checkpoint.model import Checkpoint
    from schemegen.planner import Chunk, Plan, PlannedTensor
    from schemegen.progress import Progress
    from schemegen.scheme import Format

#: Buffers by piece suffix. Each is [matrices, rows, …] of the chunk, as unsigned integers of the stored item size.
Buffers = Mapping[str, "NDArray[np.unsignedinteger[Any]]"]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights as stored bits: [matrices, rows, columns] of uint16 (BF16, F16) or uint32 (F32).

    `device` is where to compute; the bits lie in host memory, which is pinned for a device that is not the CPU. Where a
    format has one scale for more than the rows at hand, `shared` [matrices] are the largest magnitudes of all weights
    that it is made from: the matrix's, or those of the layer that engines fuse it into.
    """

    bits: NDArray[np.unsignedinteger[Any]]
    dtype: str
    device: str = "cpu"
    shared: NDArray[np.float32] | None = None

    def require_finite(self) -> None:
        """NonFiniteWeight with the index of the first weight that is NaN or infinite."""
        if (index := first_nonfinite(self.bits, self.dtype)) >= 0:
            raise NonFiniteWeight(index)

    def values_of(self, bits: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.float32]:
        """What bits of the weights' dtype stand for, exactly; the weights' own are `bits`."""
        from schemegen.kernels.arrays import widened

        return widened(bits, self.dtype)

    def bits_of(self, values: NDArray[np.float32]) -> NDArray[np.unsignedinteger[Any]]:
        """Bits of the nearest values that the weights' dtype has, ties to even; NaN is not taken."""
        from schemegen.kernels.arrays import narrowed

        return narrowed(values, self.dtype)


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks of one format, dtype and width whose weights and outputs lie one behind another in memory.

    `out` are the buffers of them all, [1, rows of all, …] or a single chunk's; `parts` are the same memory by chunk.
    """

    chunks: tuple[Chunk, ...]
    out: Buffers
    parts: tuple[Buffers, ...]


class Reader(Protocol):
    """Reads chunks into a buffer of the calling thread, valid until that thread's next call."""

    def __call__(self, *chunks: Chunk) -> Weights:
        """The weights of a chunk, or of a batch's chunks as [1, rows of all, columns]."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a backend asks for before a run: bytes of scratch space. The source is a folder on disk by then."""

    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as a backend sees it: the plan, the source, a scratch folder, and how to read a chunk's weights.

    `devices` are all that the run computes on, `device` is the calling worker's; in `prepare` it is the first.
    """

    plan: Plan
    checkpoint: Checkpoint
    scratch: Path
    device: str
    devices: tuple[str, ...]
    progress: Progress
    read: Reader


class Backend(ABC):
    """A way to quantize. Instances serve one run; `quantize_chunk` is called from several threads at once.

    `versions` names the distributions whose versions go on record: those whose code decides the bits. `devices` are the
    kinds of device it computes on, cpu or cuda. A worker of `cuda:1` calls `quantize_batch` with its own stream as
    torch's current; of a backend without one, chunks are asked for as on a CPU, and `prepare` alone uses devices.

    `method` is the name by which schemes ask for what it does. `options` is the pydantic model of what they may set
    beside that name; None where there is nothing to set.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    versions: ClassVar[tuple[str, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    method: ClassVar[str] = "rtn"
    options: ClassVar[type[BaseModel] | None] = None

    @abstractmethod
    def refuses(self, format: Format) -> str | None:
        """Why this backend cannot produce the format, or None."""

    def refuses_weights(self, format: Format, dtype: str, columns: int) -> str | None:
        """Why this backend cannot produce a format it takes from weights of this dtype and width, or None."""
        return None

    def needs(self, plan: Plan) -> Needs:
        """What the run needs beyond memory; asked before anything starts."""
        return Needs()

    def prepare(self, job: Job) -> None:
        """Load, compile or calibrate; called once, before the first chunk."""
        return

    @abstractmethod
    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Fill every buffer of `out` for the chunk."""

    def quantize_batch(self, job: Job, batch: Batch) -> None:
        """Fill the buffers of a batch. Backends that compute chunks on other devices than the CPU have it."""
        raise NotImplementedError

    def recorded(self, plan: Plan) -> tuple[str, ...]:
        """The distributions to record of a run: `versions`, unless the plan narrows them down."""
        return self.versions

    def same_bits_as(self, plan: Plan) -> str | None:
        """The program that makes the very bits of this plan, as tests show; None where none is known to."""
        return None

    def report(self) -> tuple[str, ...]:
        """Fallbacks and remarks for the model card, after the last chunk."""
        return ()


class WeightBackend(Backend):
    """A backend that needs nothing but weights: data-free rounding.

    Scales are its own choice; codes are what the verifier computes again: the nearest under the stored scale. For
    integers that is weight / scale in F32, rounded to the weights' dtype, then to an integer half to even, and clamped.
    """

    @abstractmethod
    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        """Fill all of `out` from `weights`, on `weights.device`.

        Raises NonFiniteWeight with the index of the first weight that is NaN or infinite. A scale that is NaN, infinite
        or zero is refused.

        Large matrices come in blocks of rows that share nothing but `weights.shared`: at multiples of the format's
        `row_step`, and whole where a search goes over all rows. Where no row depends on another, and there alone
        (`are_rows_alone`), batches come as rows of one matrix. Buffers are [matrices, …] by suffix, come as the last
        chunk left them, without what the plan knows already (`weight_shape`); what belongs to a whole matrix is empty
        but for its first block. All hold bits as unsigned integers, by storage:

        - pack-quantized: `weight_packed`, 32-bit words along the columns, lowest bits first, each code with
          2**(num_bits - 1) added; `weight_zero_point` likewise, but down the columns
        - int-quantized and float-quantized: `weight`, a code an item, as two's complement or as FP8 E4M3
        - NVFP4 and MXFP4: `weight_packed`, two FP4 E2M1 codes an item, the first in the low bits
        - NVFP4: `weight_global_scale` is what the scales, FP8 E4M3, were multiplied by

        Other scales are of the weights' dtype; of MX formats they are E8M0, exponents with 127 added.
        """

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Read the chunk and quantize it; a NaN or infinity becomes a CheckpointError with tensor and position."""
        self._quantize(job, (chunk,), out)

    def quantize_batch(self, job: Job, batch: Batch) -> None:
        """The same for the chunks of a batch at once."""
        self._quantize(job, batch.chunks, batch.out)

    def _quantize(self, job: Job, chunks: tuple[Chunk, ...], out: Buffers) -> None:
        weights = job.read(*chunks)
        try:
            self.quantize(weights, job.plan.format_of(chunks[0].tensor), out)
        except NonFiniteWeight as fault:
            chunk, index = _located(chunks, _checked(fault, weights))
            raise nonfinite(chunk, index) from None


class NonFiniteWeight(Exception):
    """A weight is NaN or infinite; `index` counts items from the start of the weights given."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def _checked(fault: NonFiniteWeight, weights: Weights) -> int:
    """The fault's index; ValueError, which is the backend's, where there is no weight or a finite one."""
    index, items = as_int(fault.index), weights.bits.reshape(-1)
    if not 0 <= index < items.size:
        raise ValueError(f"NonFiniteWeight({index}) of {items.size} weights")
    if first_nonfinite(items[index : index + 1], weights.dtype) < 0:
        raise ValueError(f"NonFiniteWeight({index}), where the weight is finite")
    return index


def _located(chunks: tuple[Chunk, ...], index: int) -> tuple[Chunk, int]:
    """The chunk that holds an item counted over all of them, and its index there."""
    for chunk in chunks[:-1]:
        if index < prod(chunk.shape):
            return chunk, index
        index -= prod(chunk.shape)
    return chunks[-1], index


def nonfinite(chunk: Chunk, index: int) -> CheckpointError:
    """What to raise where a chunk's item is NaN or infinite."""
    matrix, row = chunk.first
    rows, columns = chunk.tensor.matrix_shape
    return nonfinite_at(chunk.tensor, (matrix * rows + row) * columns + index)


def nonfinite_at(tensor: PlannedTensor, index: int) -> CheckpointError:
    """What to raise where a tensor's item is NaN or infinite: its name, and the item's place in it."""
    return CheckpointError(
        f"tensor {tensor.name} holds NaN or infinity at {position_of(tensor, index)}; "
        "a weight to quantize must be finite: mend the source, or keep the tensor with a policy"
    )


def position_of(tensor: PlannedTensor, index: int) -> list[int]:
    """The place of an item in its source tensor, one number a dimension."""
    return list(unraveled(index, tensor.source.shape))
