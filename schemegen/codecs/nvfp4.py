"""nvfp4-pack-quantized: FP4 E2M1 in groups of 16, FP8 scales, a global scale a fused layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from schemegen.codecs.base import fill_whole, known
from schemegen.codecs.float4 import Float4
from schemegen.kernels.fp4_numbers import NVFP4, global_scales

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class NvFp4(Float4):
    """Fused kernels for all; torch on a GPU. weight_global_scale divides: a weight is code * scale / global scale."""

    kind: ClassVar[str] = NVFP4
    scales: ClassVar[tuple[tuple[str, str], ...]] = (("weight_global_scale", "F32"), ("weight_scale", "F8_E4M3"))

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Never: every dtype has a fused kernel, and no range is searched."""
        return False

    def _made(self, weights: Items, dtype: str, out: Stored, shared: Floats | None) -> Floats:
        import numpy as np

        found = global_scales(known(shared), dtype)
        fill_whole(out.get("weight_global_scale"), found.view(np.uint32))
        return found

    def _stored(self, stored: Stored) -> Floats:
        import numpy as np

        return stored["weight_global_scale"].view(np.float32).reshape(-1)
