"""A backend at work on a probe model, chunk by chunk, with the buffers and the reader that a run would give it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemegen.backends.base import Job, Reader, Weights
from schemegen.backends.guard import GuardedBackend
from schemegen.errors import SchemegenError
from schemegen.planner import Chunk, Plan, PlannedTensor, chunks_of
from schemegen.progress import Silent
from schemegen.runner.magnitudes import Magnitudes
from schemegen.runner.worker import Memory
from schemegen.testing.findings import Findings, told
from schemegen.testing.probe_model import ProbeModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

#: The bytes of every piece of a chunk, by suffix.
Made = Mapping[str, "Bytes"]


@dataclass(slots=True)
class Watch:
    """A reader that remembers what it lent last, and can plant bits at places of it, by index."""

    read: Reader
    planted: Mapping[int, int] = field(default_factory=dict)
    lent: Any = None
    copy: Any = None

    def __call__(self, *chunks: Chunk) -> Weights:
        """The weights, with what is planted in them."""
        weights = self.read(*chunks)
        for index, bits in self.planted.items():
            weights.bits.reshape(-1)[index] = bits
        self.lent, self.copy = weights.bits, weights.bits.copy()
        return weights

    @property
    def is_changed(self) -> bool:
        """Whether somebody wrote into what was lent."""
        return self.lent is not None and bool((self.lent != self.copy).any())


@dataclass(frozen=True, slots=True)
class Trial:
    """A prepared backend and what it is asked to do. `stored` has, of a tensor's pieces, all matrices in a row."""

    model: ProbeModel
    backend: GuardedBackend
    job: Job
    memory: Memory

    @property
    def plan(self) -> Plan:
        """The plan of the probe model."""
        return self.model.plan

    def chunks(self, most_rows: int | None = None) -> list[Chunk]:
        """Every tensor whole, or in blocks of so many rows or the fewest that its format allows."""
        return [chunk for tensor in self.plan.tensors for chunk in self._chunks(tensor, most_rows)]

    def _chunks(self, tensor: PlannedTensor, most_rows: int | None) -> Iterator[Chunk]:
        matrix = tensor.source.nbytes // tensor.matrices
        row = matrix // tensor.matrix_shape[0]
        # One byte less than a matrix, so that it is cut at all.
        room = tensor.source.nbytes if most_rows is None else min(most_rows * row, max(matrix - 1, row))
        return chunks_of(tensor, self.plan.format_of(tensor), room)

    def quantize(self, chunk: Chunk, poison: int, read: Reader | None = None) -> Made:
        """What the backend makes of a chunk in buffers full of a byte; raises what the guard raises."""
        import numpy as np

        out = self.memory.buffers.outputs(chunk).whole
        out.pop("weight_shape", None)
        for items in out.values():
            items.reshape(-1).view(np.uint8)[...] = poison
        self.backend.quantize_chunk(replace(self.job, read=read or self.memory.read), chunk, out)
        return {suffix: items.reshape(-1).view(np.uint8).copy() for suffix, items in out.items()}


class Stored:
    """What was made of the probe model's tensors, piece by piece, as it would lie on disk."""

    def __init__(self) -> None:
        self._bytes: dict[str, dict[str, Bytes]] = {}

    def put(self, chunk: Chunk, made: Made) -> None:
        """Lay a chunk's bytes where the plan has them."""
        import numpy as np

        tensor = chunk.tensor
        held = self._bytes.setdefault(tensor.name, {})
        for piece, span in zip(tensor.pieces, chunk.spans, strict=True):
            if piece.suffix in made and span.nbytes:
                whole = held.setdefault(piece.suffix, np.zeros(tensor.matrices * piece.nbytes, np.uint8))
                start = span.offset - piece.offset
                whole[start : start + span.nbytes] = made[piece.suffix]

    def of(self, tensor: PlannedTensor) -> Mapping[str, Bytes]:
        """The pieces of a tensor by suffix; none where it could not be made."""
        return self._bytes.get(tensor.name, {})


def stored_of(trial: Trial, chunks: Iterable[Chunk], poison: int, findings: Findings) -> Stored:
    """Have all chunks made one after another; what the backend raises, or does to its input, is a finding."""
    stored, watch = Stored(), Watch(trial.memory.read)
    for chunk in chunks:
        if not findings.spares(chunk.tensor):
            continue
        try:
            stored.put(chunk, trial.quantize(chunk, poison, watch))
        except SchemegenError as error:
            findings.add_of(trial.plan, chunk.tensor, told(error))
        if watch.is_changed:
            findings.add_of(trial.plan, chunk.tensor, "changes the weights that it is lent; copy them first")
    return stored


@contextmanager
def prepared(backend: GuardedBackend, model: ProbeModel, scratch: Path) -> Iterator[Trial]:
    """A trial of a backend on a probe model; `needs` and `prepare` may raise a SchemegenError."""
    sources = {shard.name: os.open(model.checkpoint.path(shard.name), os.O_RDONLY) for shard in model.checkpoint.shards}
    try:
        memory = Memory(sources, Magnitudes(model.plan, sources))
        job = Job(model.plan, model.checkpoint, scratch, "cpu", ("cpu",), Silent(), memory.read)
        backend.needs(model.plan)
        backend.prepare(job)
        yield Trial(model, backend, job, memory)
    finally:
        for descriptor in sources.values():
            os.close(descriptor)
