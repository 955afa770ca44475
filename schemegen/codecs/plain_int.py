"""int-quantized: a code a byte, a scale a row, a group or the whole matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemegen.codecs.base import Codec, fill_whole, known, rows_of
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.formats import group_of
from schemegen.kernels.grids import BYTES, grid_of
from schemegen.kernels.integers import apply_int, decode_int, is_fused, quantize_int, recode_int

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored, Wrong


class PlainInt(Codec):
    """Fused kernels for every width of 4 columns or a multiple; torch for the rest, and to search ranges."""

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether ranges are searched, or groups fill no words."""
        return self.is_searched or not is_fused(self.weights.num_bits, self.group(columns), BYTES)

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu import warm_up

            kernel = "apply" if self._whole else "quantize"
            warm_up(dtype, self.weights.num_bits, group_of(self.weights, columns), BYTES, kernel)

    def warm_up_recode(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if is_fused(self.weights.num_bits, self.group(columns), BYTES):
            from schemegen.kernels.cpu import warm_up

            warm_up(dtype, self.weights.num_bits, group_of(self.weights, columns), BYTES, "recode")

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight and weight_scale; the scale of a whole matrix only where `out` has it."""
        codes, bits, size = self._arranged(out["weight"]), self._arranged(weights), self._size(weights)
        if not self._whole:
            scales = self._arranged(out["weight_scale"])
            return quantize_int(
                bits, dtype, self.weights.num_bits, size, codes, scales, device, BYTES, searched=self.is_searched
            )
        scales = self._shared_scales(known(shared), dtype)
        fill_whole(out.get("weight_scale"), scales)
        return apply_int(bits, dtype, self.weights.num_bits, size, codes, scales, device, BYTES)

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, or the first code that is not its weight's."""
        if wrong := unusable_scale(stored["weight_scale"], dtype):
            return wrong
        index = recode_int(
            self._rows(weights),
            dtype,
            self.weights.num_bits,
            self._size(weights),
            self._rows(stored["weight"]),
            self._rows(stored["weight_scale"]),
            BYTES,
        )
        return None if index < 0 else place_of("weight", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Code times scale, rounded to the dtype."""
        decode_int(
            self._rows(stored["weight"]),
            dtype,
            self.weights.num_bits,
            self._size(weights_out),
            self._rows(stored["weight_scale"]),
            self._rows(weights_out),
            BYTES,
        )

    @property
    def _whole(self) -> bool:
        """Whether a matrix has one scale."""
        return self.weights.strategy == "tensor"

    def _size(self, weights: Items) -> int:
        """Weights that share a scale."""
        _, rows, columns = weights.shape
        return rows * columns if self._whole else group_of(self.weights, columns)

    def _arranged(self, items: Items) -> Items:
        """As the kernels that encode take it: a search is one over each matrix."""
        return items if self.is_searched else self._rows(items)

    def _rows(self, items: Items) -> Items:
        """[rows of all matrices, …]; a matrix with one scale is one row."""
        return items.reshape(items.shape[0], -1) if self._whole else rows_of(items)

    def _shared_scales(self, shared: Floats, dtype: str) -> Items:
        """Scales [matrices, 1] of the matrices' largest magnitudes."""
        from schemegen.kernels.arrays import scales_of

        return scales_of(shared, dtype, grid_of(self.weights.num_bits, BYTES).divisor).reshape(-1, 1)
