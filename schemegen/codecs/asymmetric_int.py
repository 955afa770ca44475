"""pack-quantized, asymmetric: integers of 2 to 8 bits and zero points in 32-bit words, a scale a group or a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemegen.codecs.base import Codec, Wrong
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.formats import group_of
from schemegen.kernels.integers import decode_asymmetric, is_fused, quantize_asymmetric, recode_asymmetric

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored

_WORD_BITS = 32


class AsymmetricInt(Codec):
    """Zero points are packed down the rows: row blocks fill whole words of them, but for a matrix's last block."""

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether ranges are searched, or no fused kernel takes this width and group size."""
        return self.is_searched or not is_fused(self.weights.num_bits, self.group(columns))

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu_asymmetric import warm_up

            warm_up(dtype, self.weights.num_bits, group_of(self.weights, columns))

    def warm_up_recode(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if is_fused(self.weights.num_bits, self.group(columns)):
            from schemegen.kernels.cpu_asymmetric import warm_up

            warm_up(dtype, self.weights.num_bits, group_of(self.weights, columns), "recode")

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed, weight_scale and weight_zero_point."""
        return quantize_asymmetric(
            weights,
            dtype,
            self.weights.num_bits,
            group_of(self.weights, weights.shape[-1]),
            out["weight_packed"],
            out["weight_scale"],
            out["weight_zero_point"],
            device,
            self.is_searched,
        )

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, zero points of rows that are not there, or the first code not its weight's."""
        zeros = stored["weight_zero_point"]
        if wrong := unusable_scale(stored["weight_scale"], dtype) or self._surplus(zeros, weights.shape[1]):
            return wrong
        index = recode_asymmetric(
            weights,
            dtype,
            self.weights.num_bits,
            group_of(self.weights, weights.shape[-1]),
            stored["weight_packed"],
            stored["weight_scale"],
            zeros,
        )
        return None if index < 0 else place_of("weight_packed", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Code minus zero point, times scale, rounded to the dtype."""
        decode_asymmetric(
            stored["weight_packed"],
            dtype,
            self.weights.num_bits,
            group_of(self.weights, weights_out.shape[-1]),
            stored["weight_scale"],
            stored["weight_zero_point"],
            weights_out,
        )

    def _surplus(self, zeros: Items, rows: int) -> Wrong | None:
        """The first word of zero points with bits beyond the last row's."""
        used = rows * self.weights.num_bits % _WORD_BITS
        if not used or not zeros.size:
            return None
        last = zeros[:, -1] >> zeros.dtype.type(used)
        first = int((last != 0).argmax())
        if not last.flat[first]:
            return None
        matrix, group = divmod(first, last.shape[1])
        return Wrong("weight_zero_point", (matrix, zeros.shape[1] - 1, group), "has bits set beyond the last row's")
