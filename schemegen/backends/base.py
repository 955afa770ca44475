"""The backend contract: fill buffers that the house owns with what the plan names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from schemegen.errors import CheckpointError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from schemegen.checkpoint.model import Checkpoint
    from schemegen.planner import Chunk, Plan
    from schemegen.progress import Progress
    from schemegen.scheme import Format

#: Buffers by piece suffix. Each is [matrices, rows, …] of the chunk, as unsigned integers of the stored item size.
Buffers = Mapping[str, "NDArray[np.unsignedinteger[Any]]"]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of a chunk as stored bits: [matrices, rows, columns] of uint16 (BF16, F16) or uint32 (F32)."""

    bits: NDArray[np.unsignedinteger[Any]]
    dtype: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What a backend asks for before a run: the source as a folder on disk, and bytes of scratch space."""

    source_folder: bool = False
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as a backend sees it: the plan, the source, a scratch folder, and how to read a chunk's weights.

    `devices` are all that the run computes on, `device` is the calling worker's; in `prepare` it is the first.
    `read` fills a buffer of the calling thread and is valid until that thread's next call.
    """

    plan: Plan
    checkpoint: Checkpoint
    scratch: Path
    device: str
    devices: tuple[str, ...]
    progress: Progress
    read: Callable[[Chunk], Weights]


class Backend(ABC):
    """A way to quantize. Instances serve one run; `quantize_chunk` is called from several threads at once.

    `versions` names the distributions whose versions go on record: those whose code decides the bits.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    versions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def refuses(self, format: Format) -> str | None:
        """Why this backend cannot produce the format, or None."""

    def needs(self, plan: Plan) -> Needs:
        """What the run needs beyond memory; asked before anything starts."""
        return Needs()

    def prepare(self, job: Job) -> None:
        """Load, compile or calibrate; called once, before the first chunk."""
        return

    @abstractmethod
    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Fill every buffer of `out` for the chunk."""

    def report(self) -> tuple[str, ...]:
        """Fallbacks and remarks for the model card, after the last chunk."""
        return ()


class WeightBackend(Backend):
    """A backend that needs nothing but weights: data-free rounding.

    Scales are its own choice; codes are what the verifier computes again: the nearest under the stored scale.
    """

    @abstractmethod
    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        """Fill all of `out` from `weights`; raise NonFiniteWeight for NaN or infinity.

        Large matrices come in row blocks. Buffers come as the last chunk left them, without what the plan knows
        already (`weight_shape`).
        pack-quantized: `weight_packed` holds 32-bit words along the columns, lowest bits first, each code with
        2**(num_bits - 1) added; `weight_scale` is bits of the weights' dtype.
        """

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Read the chunk and quantize it; a NaN or infinity becomes a CheckpointError with tensor and position."""
        try:
            self.quantize(job.read(chunk), job.plan.format_of(chunk.tensor), out)
        except NonFiniteWeight as fault:
            raise CheckpointError(
                f"tensor {chunk.tensor.name} holds NaN or infinity at {position_of(chunk, fault.index)}; "
                "a weight to quantize must be finite: mend the source, or keep the tensor with a policy"
            ) from None


class NonFiniteWeight(Exception):
    """A weight is NaN or infinite; `index` counts items from the start of the chunk."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def position_of(chunk: Chunk, index: int) -> list[int]:
    """The place of a chunk's item in its source tensor, one number a dimension."""
    matrix, row = chunk.first
    rows, columns = chunk.tensor.matrix_shape
    items = (matrix * rows + row) * columns + index
    place: list[int] = []
    for length in reversed(chunk.tensor.source.shape):
        items, here = divmod(items, length)
        place.append(here)
    return place[::-1]
