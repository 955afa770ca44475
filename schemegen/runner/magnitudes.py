"""Largest magnitudes over whole matrices and over layers that engines fuse: what some scales are made from.

They are measured with the first chunk that needs them: of what the chunk holds itself in memory, of all else from the
source, which thus is read from disk once. A layer's matrices may lie in different tensors and shards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from schemegen.backends.base import nonfinite_at
from schemegen.errors import UnsupportedError
from schemegen.formats import DTYPE_BITS, Shared, shared_of
from schemegen.kernels.floats import FLOAT_BITS, first_nonfinite, largest_magnitude
from schemegen.planner import Chunk, Plan, PlannedTensor
from schemegen.positional import as_bytes
from schemegen.runner.reading import fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]

_BLOCK: Final = 1 << 20


@dataclass(slots=True)
class _Layer:
    """Matrices that share a magnitude: (tensor, number within it). Whoever holds `lock` measures; others wait."""

    name: str
    members: list[tuple[PlannedTensor, int]] = field(default_factory=list)
    largest: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, tensor: PlannedTensor, matrix: int) -> None:
        """One more member; UnsupportedError where its dtype is another, in which the scale would be another."""
        if self.members and self.members[0][0].source.dtype != tensor.source.dtype:
            first = self.members[0][0]
            raise UnsupportedError(
                f"engines build {self.name} from {first.name} ({first.source.dtype}) and {tensor.name} "
                f"({tensor.source.dtype}), and its format has one scale for both: keep them with a policy"
            )
        self.members.append((tensor, matrix))


class Magnitudes:
    """The magnitudes of a plan's matrices, each measured once, by any thread; `sources` are open source shards."""

    def __init__(self, plan: Plan, sources: Mapping[str, int]) -> None:
        self._sources = sources
        self._layers = _layers_of(plan)
        self._memory = threading.local()

    def of(self, chunk: Chunk, bits: Bits | None = None) -> NDArray[np.float32] | None:
        """[matrices] of the chunk, or None where its format needs no more than the rows at hand.

        `bits` [matrices, rows, columns] are the chunk's weights where they have been read already. CheckpointError
        where a weight is NaN or infinite.
        """
        import numpy as np

        layers = self._layers.get(chunk.tensor.name)
        if layers is None:
            return None
        first, count = chunk.first[0], chunk.shape[0]
        at_hand = _matrices_of(chunk, bits)
        return np.array([self._of(layer, at_hand) for layer in layers[first : first + count]], np.float32)

    def _of(self, layer: _Layer, at_hand: Mapping[tuple[str, int], Bits]) -> float:
        with layer.lock:
            if layer.largest is None:
                layer.largest = max(self._measured(*member, at_hand) for member in layer.members)
            return layer.largest

    def _measured(self, tensor: PlannedTensor, matrix: int, at_hand: Mapping[tuple[str, int], Bits]) -> float:
        import numpy as np

        dtype = tensor.source.dtype
        start = matrix * (tensor.source.nbytes // tensor.matrices) // (DTYPE_BITS[dtype] // 8)
        given = at_hand.get((tensor.name, matrix))
        top = 0
        for bits in self._blocks(tensor, matrix) if given is None else [given]:
            top = max(top, largest_magnitude(bits, dtype))
            if top >= FLOAT_BITS[dtype].infinity:
                raise nonfinite_at(tensor, start + first_nonfinite(bits, dtype))
            start += bits.size
        return _value(np.array([top], f"u{DTYPE_BITS[dtype] // 8}"), dtype)

    def _blocks(self, tensor: PlannedTensor, matrix: int) -> Iterator[Bits]:
        """The matrix's weights, read block by block into the thread's own memory."""
        nbytes = tensor.source.nbytes // tensor.matrices
        for start in range(matrix * nbytes, (matrix + 1) * nbytes, _BLOCK):
            view = self._block()[: min(_BLOCK, (matrix + 1) * nbytes - start)]
            fill(self._sources, tensor, tensor.source.offset + start, as_bytes(view))
            yield view.view(f"u{DTYPE_BITS[tensor.source.dtype] // 8}")

    def _block(self) -> NDArray[np.uint8]:
        import numpy as np

        if not hasattr(self._memory, "block"):
            self._memory.block = np.empty(_BLOCK, np.uint8)
        block: NDArray[np.uint8] = self._memory.block
        return block


def _layers_of(plan: Plan) -> dict[str, list[_Layer]]:
    """For each tensor whose format shares a magnitude the layers of its matrices."""
    found: dict[str, list[_Layer]] = {}
    fused: dict[str, _Layer] = {}
    for tensor in plan.tensors:
        shared = None if tensor.format is None else shared_of(plan.format_of(tensor))
        if shared is None:
            continue
        found[tensor.name] = []
        for matrix, module in enumerate(tensor.modules):
            name = plan.layer_of(module)
            layer = fused.setdefault(name, _Layer(name)) if shared is Shared.FUSED else _Layer(module)
            layer.add(tensor, matrix)
            found[tensor.name].append(layer)
    return found


def _matrices_of(chunk: Chunk, bits: Bits | None) -> dict[tuple[str, int], Bits]:
    """Whole matrices among weights that were read, by tensor and number."""
    if bits is None or chunk.shape[1:] != chunk.tensor.matrix_shape:
        return {}
    return {(chunk.tensor.name, chunk.first[0] + number): bits[number] for number in range(chunk.shape[0])}


def _value(bits: Bits, dtype: str) -> float:
    """The value of a magnitude, which F32 holds exactly."""
    from schemegen.kernels.arrays import widened

    return float(widened(bits, dtype)[0])
