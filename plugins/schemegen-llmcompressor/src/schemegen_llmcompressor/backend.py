"""The backend `llmcompressor-rtn`: model_free_ptq in scratch space, then the plan's tensors from its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from schemegen import Backend, Buffers
from schemegen.backends.base import Job, Needs, nonfinite
from schemegen.formats import rounding_fault
from schemegen.kernels.floats import first_nonfinite
from schemegen.peer import PEER, peer_difference, rounding_difference
from schemegen_llmcompressor.faults import BACKEND
from schemegen_llmcompressor.layouts import check_fusions, check_layouts
from schemegen_llmcompressor.orders import order_of
from schemegen_llmcompressor.parts import Part, parts_of
from schemegen_llmcompressor.process import carry_out
from schemegen_llmcompressor.result import Result
from schemegen_llmcompressor.scratch import VERSIONS, Scratch, identity, scratch_bytes

if TYPE_CHECKING:
    from schemegen import Format, Plan
    from schemegen.planner import Chunk


class LlmCompressorRtn(Backend):
    """Data-free rounding by llm-compressor, into every storage format, by extremes or by its search of the clip."""

    name: ClassVar[str] = BACKEND
    summary: ClassVar[str] = "round to nearest by llm-compressor's model_free_ptq, in scratch space"
    versions: ClassVar[tuple[str, ...]] = VERSIONS
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __init__(self) -> None:
        self._result: Result | None = None

    def refuses(self, format: Format) -> str | None:
        """Why model_free_ptq has no such result, or None."""
        difference = rounding_difference(format)
        return rounding_fault(format) or (f"is model_free_ptq, which {difference}" if difference else None)

    def same_bits_as(self, plan: Plan) -> str | None:
        """llm-compressor, unless its own script could not save what it computes."""
        return PEER if peer_difference(plan) is None else None

    def needs(self, plan: Plan) -> Needs:
        """Room for all quantized tensors once more; UnsupportedError for an unknown layout or fusion."""
        check_layouts(plan)
        check_fusions(plan)
        return Needs(scratch_bytes=scratch_bytes(parts_of(plan)))

    def prepare(self, job: Job) -> None:
        """Let llm-compressor quantize, or find what it made for this very plan in an earlier run."""
        parts, scratch = parts_of(job.plan), Scratch(job.scratch)
        made = identity(job.plan, job.checkpoint, parts)
        finished = scratch.holds(made)
        if not finished:
            scratch.clear()
            _quantize(job, parts, scratch)
        self._result = Result(scratch.result, parts)
        if not finished:
            scratch.finish(made, parts)

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Hand out what was made of the chunk; CheckpointError where a weight of it is NaN or infinite."""
        assert self._result is not None
        # llm-compressor takes any weight, and not every format tells afterwards.
        weights = job.read(chunk)
        if (index := first_nonfinite(weights.bits, weights.dtype)) >= 0:
            raise nonfinite(chunk, index)
        self._result.fill(chunk, out)


def _quantize(job: Job, parts: tuple[Part, ...], scratch: Scratch) -> None:
    """Run the worker; progress is told in bytes of the result."""
    order = order_of(job.plan, job.checkpoint, parts, scratch.result, job.devices)
    total, told = sum(output.nbytes for part in parts for output in part.outputs), 0

    def tick() -> None:
        nonlocal told
        found = min(scratch.size(), total)
        job.progress.advance(max(0, found - told))
        told = max(told, found)

    job.progress.start("llm-compressor", total)
    carry_out(order, scratch.order, scratch.log, tick)
    job.progress.finish()
