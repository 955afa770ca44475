"""mxfp4-pack-quantized: FP4 E2M1 in groups of 32, E8M0 scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from schemegen.codecs.float4 import Float4
from schemegen.kernels.fp4_numbers import MXFP4

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class MxFp4(Float4):
    """No global scale: the kernels take ones."""

    kind: ClassVar[str] = MXFP4
    scales: ClassVar[tuple[tuple[str, str], ...]] = (("weight_scale", "U8"),)

    def _made(self, weights: Items, dtype: str, out: Stored, shared: Floats | None) -> Floats:
        return _ones(len(weights))

    def _stored(self, stored: Stored) -> Floats:
        return _ones(len(stored["weight_packed"]))


def _ones(matrices: int) -> Floats:
    import numpy as np

    return np.ones(matrices, np.float32)
