"""nvfp4-pack-quantized: FP4 E2M1 in groups of 16, FP8 scales, a global scale a fused layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemegen.codecs.base import Codec, Wrong
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.kernels.fp4_numbers import NVFP4, global_scales

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class NvFp4(Codec):
    """Fused kernels for all; torch on a GPU. weight_global_scale divides: a weight is code * scale / global scale."""

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Never: every dtype has a fused kernel."""
        return False

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel."""
        from schemegen.kernels.cpu_fp4 import warm_up

        warm_up(NVFP4, dtype)

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed, weight_scale and, where it is due, weight_global_scale; `shared` is a must."""
        import numpy as np

        assert shared is not None
        wholes = global_scales(shared, dtype)
        due = out.get("weight_global_scale")
        if due is not None and due.size:
            due[...] = wholes.view(np.uint32).reshape(due.shape)
        if device == "cpu":
            from schemegen.kernels.cpu_fp4 import quantize_fp4

            return quantize_fp4(NVFP4, weights, dtype, out["weight_packed"], out["weight_scale"], wholes)
        from schemegen.kernels.torch_fp4 import quantize_fp4 as quantize_there

        return int(
            quantize_there(NVFP4, weights, dtype, out["weight_packed"], out["weight_scale"], wholes, device=device)
        )

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, or the first code that is not its weight's."""
        from schemegen.kernels.cpu_fp4 import recode_fp4

        for suffix, kind in (("weight_global_scale", "F32"), ("weight_scale", "F8_E4M3")):
            if wrong := unusable_scale(stored[suffix], kind, suffix):
                return wrong
        packed, scales = stored["weight_packed"], stored["weight_scale"]
        index = recode_fp4(NVFP4, weights, dtype, packed, scales, _wholes(stored))
        return None if index < 0 else place_of("weight_packed", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Value times scale over global scale, rounded to BF16, which compressed-tensors gives, then to the dtype."""
        from schemegen.kernels.cpu_fp4 import decode_fp4

        packed, scales = stored["weight_packed"], stored["weight_scale"]
        decode_fp4(NVFP4, packed, dtype, scales, _wholes(stored), weights_out)


def _wholes(stored: Stored) -> Floats:
    """The global scales [matrices]."""
    import numpy as np

    return stored["weight_global_scale"].view(np.float32).reshape(-1)
