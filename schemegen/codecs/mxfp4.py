"""mxfp4-pack-quantized: FP4 E2M1 in groups of 32, E8M0 scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemegen.codecs.base import Codec, Wrong
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.formats import MSE_OBSERVERS
from schemegen.kernels.fp4_numbers import MXFP4

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class MxFp4(Codec):
    """Fused kernels with the observer minmax; torch on a GPU and for the search of observer mse."""

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether ranges are searched."""
        return self.weights.observer in MSE_OBSERVERS

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if one is used."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu_fp4 import warm_up

            warm_up(MXFP4, dtype)

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed and weight_scale."""
        packed, scales, searches = out["weight_packed"], out["weight_scale"], self.needs_torch()
        if device == "cpu" and not searches:
            from schemegen.kernels.cpu_fp4 import quantize_fp4

            return quantize_fp4(MXFP4, weights, dtype, packed, scales, _ones(weights))
        from schemegen.kernels.torch_fp4 import quantize_fp4 as quantize_there

        return int(quantize_there(MXFP4, weights, dtype, packed, scales, _ones(weights), device, searches))

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, or the first code that is not its weight's."""
        from schemegen.kernels.cpu_fp4 import recode_fp4

        if wrong := unusable_scale(stored["weight_scale"], "U8"):
            return wrong
        packed, scales = stored["weight_packed"], stored["weight_scale"]
        index = recode_fp4(MXFP4, weights, dtype, packed, scales, _ones(weights))
        return None if index < 0 else place_of("weight_packed", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Value times scale, rounded to BF16, which compressed-tensors gives, then to the dtype."""
        from schemegen.kernels.cpu_fp4 import decode_fp4

        packed, scales = stored["weight_packed"], stored["weight_scale"]
        decode_fp4(MXFP4, packed, dtype, scales, _ones(weights_out), weights_out)


def _ones(weights: Items) -> Floats:
    """What the kernels take for global scales, [matrices]."""
    import numpy as np

    return np.ones(len(weights), np.float32)
