"""What the formats of FP4 E2M1 share: codes in pairs, a scale for a small group, kernels that take global scales."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from schemegen.codecs.base import Codec, Wrong
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.kernels.torch_check import load

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class Float4(Codec):
    """Fused kernels with the observer minmax; torch on a GPU and for the search of observer mse.

    `kind` is what the kernels call the format, `scales` are suffix and dtype of all that must be usable.
    """

    kind: ClassVar[str]
    scales: ClassVar[tuple[tuple[str, str], ...]]

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether ranges are searched."""
        return self.is_searched

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if one is used."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu_fp4 import warm_up

            warm_up(self.kind, dtype)

    def warm_up_recode(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel."""
        from schemegen.kernels.cpu_fp4 import warm_up

        warm_up(self.kind, dtype, "recode")

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed and weight_scale, and the global scale where there is one."""
        global_scales, searches = self._made(weights, dtype, out, shared), self.needs_torch()
        given = self.kind, weights, dtype, out["weight_packed"], out["weight_scale"], global_scales
        if device == "cpu" and not searches:
            from schemegen.kernels.cpu_fp4 import quantize_fp4

            return quantize_fp4(*given)
        return int(load("torch_fp4", self.kind.upper()).quantize_fp4(*given, device, searches))

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, or the first code that is not its weight's."""
        from schemegen.kernels.cpu_fp4 import recode_fp4

        for suffix, scale_dtype in self.scales:
            if wrong := unusable_scale(stored[suffix], scale_dtype, suffix):
                return wrong
        packed, scales = stored["weight_packed"], stored["weight_scale"]
        index = recode_fp4(self.kind, weights, dtype, packed, scales, self._stored(stored))
        return None if index < 0 else place_of("weight_packed", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Value times scale, rounded to BF16, which compressed-tensors gives, then to the dtype."""
        from schemegen.kernels.cpu_fp4 import decode_fp4

        packed, scales = stored["weight_packed"], stored["weight_scale"]
        decode_fp4(self.kind, packed, dtype, scales, self._stored(stored), weights_out)

    @abstractmethod
    def _made(self, weights: Items, dtype: str, out: Stored, shared: Floats | None) -> Floats:
        """The global scales [matrices] to encode with, filled into `out` where they are due."""

    @abstractmethod
    def _stored(self, stored: Stored) -> Floats:
        """The global scales [matrices] of what is stored."""
