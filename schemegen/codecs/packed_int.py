"""pack-quantized, symmetric: integers of 2 to 8 bits in 32-bit words, a scale a group or a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from schemegen.codecs.base import Codec, rows_of
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.formats import group_of
from schemegen.kernels.grids import NARROW, PACKED
from schemegen.kernels.integers import decode_int, is_fused, quantize_int, recode_int

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored, Wrong


class PackedInt(Codec):
    """Symmetric integers: fused kernels for INT4 and INT8, torch for the other widths."""

    style: ClassVar[str] = PACKED

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether no fused kernel takes this width and group size."""
        return not is_fused(self.weights.num_bits, self.group(columns), self.style)

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu import warm_up

            warm_up(dtype, self.weights.num_bits, group_of(self.weights, columns), self.style)

    def warm_up_recode(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if is_fused(self.weights.num_bits, self.group(columns), self.style):
            from schemegen.kernels.cpu import warm_up

            warm_up(dtype, self.weights.num_bits, group_of(self.weights, columns), self.style, "recode")

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed and weight_scale."""
        return quantize_int(
            rows_of(weights),
            dtype,
            self.weights.num_bits,
            group_of(self.weights, weights.shape[-1]),
            rows_of(out["weight_packed"]),
            rows_of(out["weight_scale"]),
            device,
            self.style,
        )

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, or the first code that is not its weight's."""
        if wrong := unusable_scale(stored["weight_scale"], dtype):
            return wrong
        index = recode_int(
            rows_of(weights),
            dtype,
            self.weights.num_bits,
            group_of(self.weights, weights.shape[-1]),
            rows_of(stored["weight_packed"]),
            rows_of(stored["weight_scale"]),
            self.style,
        )
        return None if index < 0 else place_of("weight_packed", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Code times scale, rounded to the dtype."""
        decode_int(
            rows_of(stored["weight_packed"]),
            dtype,
            self.weights.num_bits,
            group_of(self.weights, weights_out.shape[-1]),
            rows_of(stored["weight_scale"]),
            rows_of(weights_out),
            self.style,
        )


class NarrowInt(PackedInt):
    """Symmetric integers without the lowest code, under a scale that gives all weights back where there is one."""

    style: ClassVar[str] = NARROW
