"""A quantized output as a checkpoint of its source's layout again, decoded by schemegen's own codecs; and its noise.

So that every format is measured alike, whether or not transformers loads it. Weights are what is decoded: activations
stay as they are, even where a scheme has engines quantize them.
"""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bench.compare import Stored, stored_tensors
from schemegen.codecs import codec_of
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Plan, PlannedTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Items = NDArray[np.unsignedinteger[Any]]

EXPERTS: Final = "routed_expert"


def decode(plan: Plan, output: Path, source: Path, folder: Path) -> dict[str, float]:
    """Write `source` to `folder` with its quantized weights as `output` has them: signal to noise by role, in dB.

    It is infinite where nothing changed, and over all matrices of a role, those of the MTP block too.
    """
    folder.mkdir()
    for path in filter(Path.is_file, source.iterdir()):
        # Without its mode: what is copied has to be written to.
        shutil.copyfile(path, folder / path.name)
    stored = stored_tensors(output)
    signal, noise = defaultdict(list), defaultdict(list)
    for tensor in plan.tensors:
        if tensor.format is not None:
            exact, found = _both(plan, tensor, stored, output, folder)
            signal[tensor.role.value].append(float(np.square(exact).sum()))
            noise[tensor.role.value].append(float(np.square(found - exact).sum()))
    return {role: decibels(math.fsum(signal[role]), math.fsum(noise[role])) for role in signal}


def decibels(signal: float, noise: float) -> float:
    """The ratio of two energies."""
    return 10 * math.log10(signal / noise) if noise else math.inf


def _both(
    plan: Plan, tensor: PlannedTensor, stored: dict[str, Stored], output: Path, folder: Path
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weights of a tensor as they were and as they are now, in place of them."""
    rows, columns = tensor.matrix_shape
    source = tensor.source
    with (folder / source.file).open("r+b") as file:
        file.seek(source.offset)
        bits = np.frombuffer(file.read(source.nbytes), f"u{DTYPE_BITS[source.dtype] // 8}")
        decoded = np.empty((tensor.matrices, rows, columns), bits.dtype)
        codec_of(plan.format_of(tensor)).decode(_pieces(tensor, stored, output), source.dtype, decoded)
        file.seek(source.offset)
        file.write(decoded.tobytes())
    return numbers(bits, source.dtype), numbers(decoded.reshape(-1), source.dtype)


def _pieces(tensor: PlannedTensor, stored: dict[str, Stored], output: Path) -> dict[str, Items]:
    """What is stored of a tensor, by suffix: [matrices, …]."""
    each, found = len(tensor.pieces), {}
    for place, piece in enumerate(tensor.pieces):
        raw = b"".join(_raw(output, stored[one.name]) for one in tensor.outputs[place::each])
        shape = (tensor.matrices, *piece.shape)
        found[piece.suffix] = np.frombuffer(raw, f"u{DTYPE_BITS[piece.dtype] // 8}").reshape(shape)
    return found


def _raw(folder: Path, stored: Stored) -> bytes:
    with (folder / stored.file).open("rb") as file:
        file.seek(stored.start)
        return file.read(stored.stop - stored.start)


def numbers(bits: Items, dtype: str) -> NDArray[np.float64]:
    """The values of weights stored as bits."""
    if dtype == "BF16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.view(np.float16 if dtype == "F16" else np.float32).astype(np.float64)
