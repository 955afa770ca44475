"""Largest magnitudes over whole matrices and over layers that engines fuse: what some scales are made from.

They are measured just before the first chunk that needs them, so that the source is read from disk once; a layer's
matrices may lie in different shards.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from schemegen.backends.base import nonfinite_at
from schemegen.formats import DTYPE_BITS, Shared, shared_of
from schemegen.kernels.floats import FLOAT_BITS, first_nonfinite, largest_magnitude
from schemegen.planner import Chunk, Plan, PlannedTensor
from schemegen.positional import as_bytes
from schemegen.runner.reading import fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK: Final = 1 << 20
_Key = tuple[str, int] | str


class Magnitudes:
    """The magnitudes of a plan's matrices, each measured when first asked for; `sources` are open source shards."""

    def __init__(self, plan: Plan, sources: Mapping[str, int]) -> None:
        self._plan, self._sources = plan, sources
        self._members: dict[str, list[tuple[PlannedTensor, int]]] = defaultdict(list)
        self._found: dict[_Key, float] = {}
        self._memory = threading.local()
        for tensor in plan.tensors:
            if tensor.format is not None and shared_of(plan.format_of(tensor)) is Shared.FUSED:
                for matrix, module in enumerate(tensor.modules):
                    self._members[plan.layer_of(module)].append((tensor, matrix))

    def of(self, chunk: Chunk) -> NDArray[np.float32] | None:
        """[matrices] of the chunk, or None where its format needs no more than the rows at hand.

        CheckpointError where a weight is NaN or infinite.
        """
        import numpy as np

        shared = shared_of(self._plan.format_of(chunk.tensor))
        if shared is None:
            return None
        first, count = chunk.first[0], chunk.shape[0]
        return np.array([self._of(chunk.tensor, first + number, shared) for number in range(count)], np.float32)

    def _of(self, tensor: PlannedTensor, matrix: int, shared: Shared) -> float:
        key: _Key = (tensor.name, matrix)
        members = [(tensor, matrix)]
        if shared is Shared.FUSED:
            key = self._plan.layer_of(tensor.modules[matrix])
            members = self._members[key]
        if key not in self._found:
            self._found[key] = max(self._measured(member, number) for member, number in members)
        return self._found[key]

    def _measured(self, tensor: PlannedTensor, matrix: int) -> float:
        import numpy as np

        nbytes = tensor.source.nbytes // tensor.matrices
        dtype, item = tensor.source.dtype, DTYPE_BITS[tensor.source.dtype] // 8
        top = 0
        for start in range(matrix * nbytes, (matrix + 1) * nbytes, _BLOCK):
            view = self._block()[: min(_BLOCK, (matrix + 1) * nbytes - start)]
            fill(self._sources, tensor, tensor.source.offset + start, as_bytes(view))
            bits = view.view(f"u{item}")
            top = max(top, largest_magnitude(bits, dtype))
            if top >= FLOAT_BITS[dtype].infinity:
                raise nonfinite_at(tensor, start // item + first_nonfinite(bits, dtype))
        return _value(np.array([top], f"u{item}"), dtype)

    def _block(self) -> NDArray[np.uint8]:
        import numpy as np

        if not hasattr(self._memory, "block"):
            self._memory.block = np.empty(_BLOCK, np.uint8)
        block: NDArray[np.uint8] = self._memory.block
        return block


def _value(bits: NDArray[np.unsignedinteger], dtype: str) -> float:
    """The value of a magnitude, which F32 holds exactly."""
    import numpy as np

    if dtype == "BF16":
        return float((bits.astype(np.uint32) << np.uint32(16)).view(np.float32)[0])
    return float(bits.view(np.float16 if dtype == "F16" else np.float32)[0])
