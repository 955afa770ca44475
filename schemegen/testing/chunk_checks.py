"""What a backend fills its buffers with: all of them, always alike, whoever cuts or calls, and close to the weights."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from schemegen.backends.base import WeightBackend, nonfinite
from schemegen.errors import CheckpointError, SchemegenError
from schemegen.kernels.floats import FLOAT_BITS
from schemegen.planner import Chunk
from schemegen.testing.findings import Findings, told
from schemegen.testing.trial import Stored, Trial, Watch, stored_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_POISONS: Final = (0xA5, 0x5A)
_FEW_ROWS: Final = 5
_THREADS: Final = 4


def check_buffers(trial: Trial, findings: Findings) -> Stored:
    """Every byte is filled, and the same when asked again in another order; what was made."""
    chunks = trial.chunks()
    first = stored_of(trial, chunks, _POISONS[0], findings)
    second = stored_of(trial, reversed(chunks), _POISONS[1], findings)
    for tensor in filter(findings.spares, trial.plan.tensors):
        again = second.of(tensor)
        for suffix, made in first.of(tensor).items():
            left = (made == _POISONS[0]) & (again[suffix] == _POISONS[1])
            if left.any():
                place = f"byte {int(left.argmax())} is the first of {int(left.sum())} of {left.size}"
                findings.add_of(trial.plan, tensor, f"leaves bytes of {suffix} as they were; fill the buffer", place)
            elif place := _difference(made, again[suffix]):
                findings.add_of(trial.plan, tensor, f"makes another {suffix} when asked again", place)
    return first


def check_cuts(trial: Trial, whole: Stored, findings: Findings) -> None:
    """Blocks of rows become what the whole matrices did, and single matrices what stacks did."""
    cut = stored_of(trial, trial.chunks(_FEW_ROWS), _POISONS[0], findings)
    fault = "makes another {} of blocks of rows than of whole matrices; rows share nothing but weights.shared"
    compare(trial, whole, cut, findings, fault)


def check_threads(trial: Trial, whole: Stored, findings: Findings) -> None:
    """Several threads at once make the same bytes."""
    chunks = [chunk for chunk in trial.chunks() if findings.spares(chunk.tensor)]
    made = Stored()
    with _quick_switches(), ThreadPoolExecutor(_THREADS) as pool:
        # Each tensor's neighbours are others at every turn.
        for turn in range(2):
            shuffled = random.Random(turn).sample(chunks, len(chunks))
            for chunk, bits in zip(shuffled, pool.map(lambda c: _tried(trial, c), shuffled), strict=True):
                if isinstance(bits, SchemegenError):
                    findings.add_of(trial.plan, chunk.tensor, f"fails when several threads call it: {told(bits)}")
                else:
                    made.put(chunk, bits)
            fault = "makes another {} when several threads call it; write to nothing that they share"
            compare(trial, whole, made, findings, fault)


def check_nonfinite(trial: Trial, findings: Findings) -> None:
    """NaN and infinity are told with the first one's place. What another kind of backend looks at is its own matter."""
    if not isinstance(trial.backend.backend, WeightBackend):
        return
    for chunk in _one_a_layer(trial.chunks(_FEW_ROWS)):
        if findings.spares(chunk.tensor):
            for word, bits in _bad_weights(chunk.tensor.source.dtype):
                _check_bad(trial, chunk, word, bits, findings)


def _check_bad(trial: Trial, chunk: Chunk, word: str, bits: int, findings: Findings) -> None:
    columns = chunk.shape[2]
    first, later = columns // 2 + 1, chunk.shape[1] * columns - 3
    watch = Watch(trial.memory.read, {first: bits, later: FLOAT_BITS[chunk.tensor.source.dtype].infinity})
    expected = str(nonfinite(chunk, first))
    try:
        trial.quantize(chunk, _POISONS[0], watch)
    except CheckpointError as error:
        if str(error) != expected:
            findings.add_of(trial.plan, chunk.tensor, "tells another place of a weight that is no number", str(error))
    except SchemegenError as error:
        findings.add_of(trial.plan, chunk.tensor, f"fails over a weight that is {word}: {told(error)}")
    else:
        fault = f"takes a weight that is {word}; raise NonFiniteWeight with the index of the first one"
        findings.add_of(trial.plan, chunk.tensor, fault)


def _bad_weights(dtype: str) -> Iterator[tuple[str, int]]:
    floats = FLOAT_BITS[dtype]
    yield "NaN", floats.magnitude
    yield "infinite", floats.infinity
    yield "minus infinity", floats.infinity | floats.magnitude + 1


def _one_a_layer(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The last block of each layer's tallest matrix, so that an index into the tensor is another than one into it."""
    found: dict[int | None, Chunk] = {}
    for chunk in chunks:
        tallest = found.get(chunk.tensor.layer)
        if tallest is None or chunk.tensor.matrix_shape[0] >= tallest.tensor.matrix_shape[0]:
            found[chunk.tensor.layer] = chunk
    return list(found.values())


def _tried(trial: Trial, chunk: Chunk) -> dict[str, NDArray[np.uint8]] | SchemegenError:
    try:
        return dict(trial.quantize(chunk, _POISONS[1]))
    except SchemegenError as error:
        return error


def compare(trial: Trial, expected: Stored, found: Stored, findings: Findings, fault: str) -> None:
    """A finding, `fault` with the piece's suffix, for each tensor that was made otherwise."""
    for tensor in filter(findings.spares, trial.plan.tensors):
        for suffix, made in expected.of(tensor).items():
            if place := _difference(made, found.of(tensor)[suffix]):
                findings.add_of(trial.plan, tensor, fault.format(suffix), place)
                break


def _difference(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> str:
    differs = left != right
    return f"byte {int(differs.argmax())} is the first of {int(differs.sum())}" if differs.any() else ""


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let threads of Python take turns every 10 µs, so that what they share shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
