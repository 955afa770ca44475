"""Batches on a device, for backends that compute on GPUs: tried on torch's CPU, which goes the same way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Final

from schemegen.backends.base import Batch
from schemegen.errors import SchemegenError
from schemegen.formats import are_rows_alone
from schemegen.kernels.torch_check import torch_fault
from schemegen.planner import Chunk
from schemegen.runner.buffers import Buffers
from schemegen.runner.devices import TORCH_CPU
from schemegen.runner.lanes import BATCH_BYTES, Lane
from schemegen.testing.chunk_checks import compare
from schemegen.testing.findings import Findings, told
from schemegen.testing.trial import Made, Stored, Trial

_FEW_ROWS: Final = 9
_POISON: Final = 0xA5


def check_batches(trial: Trial, whole: Stored, findings: Findings) -> None:
    """Rows of several matrices in one batch become what each did alone, where torch is there."""
    if "cuda" not in trial.backend.devices() or not trial.backend.takes_batches or torch_fault() is not None:
        return
    # A thread of its own, as each lane of a run has: streams and buffers are a thread's.
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(_made, trial, findings).result()
    compare(trial, whole, made, findings, "makes another {} of a batch on a device than on a CPU")


def _made(trial: Trial, findings: Findings) -> Stored:
    stored, lane = Stored(), Lane(TORCH_CPU, BATCH_BYTES)
    with lane.entered() as allocate:
        trial.memory.buffers = Buffers(trial.memory.sources, lane.device, allocate)
        for chunks in _batches(trial):
            due = tuple(chunk for chunk in chunks if findings.spares(chunk.tensor))
            try:
                for chunk, made in zip(due, _quantized(trial, due) if due else (), strict=True):
                    stored.put(chunk, made)
            except SchemegenError as error:
                findings.add_of(trial.plan, due[0].tensor, f"fails over a batch on a device: {told(error)}")
    return stored


def _batches(trial: Trial) -> Iterator[tuple[Chunk, ...]]:
    """Chunks of a layer's matrices of one format, dtype and width; one by one where rows are not alone."""
    for _, layer in groupby(sorted(trial.chunks(_FEW_ROWS), key=_kind), key=_kind):
        chunks = tuple(layer)
        if are_rows_alone(trial.plan.format_of(chunks[0].tensor)):
            yield chunks
        else:
            yield from ((chunk,) for chunk in chunks)


def _kind(chunk: Chunk) -> tuple[int, int]:
    """A probe model's layer and the width of its matrices."""
    return chunk.tensor.layer or 0, chunk.shape[2]


def _quantized(trial: Trial, chunks: tuple[Chunk, ...]) -> list[Made]:
    import numpy as np

    outputs = trial.memory.buffers.outputs(*chunks)
    for out in (outputs.whole, *outputs.parts):
        out.pop("weight_shape", None)
    for items in outputs.whole.values():
        items.reshape(-1).view(np.uint8)[...] = _POISON
    job = replace(trial.job, device=TORCH_CPU, devices=(TORCH_CPU,))
    trial.backend.quantize_batch(job, Batch(chunks, outputs.whole, tuple(outputs.parts)))
    return [
        {suffix: items.reshape(-1).view(np.uint8).copy() for suffix, items in part.items()} for part in outputs.parts
    ]
