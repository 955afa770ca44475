"""pack-quantized, symmetric, scales found by a search: observers `mse` and `signed_mse`. Stored as without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemegen.codecs.base import rows_of
from schemegen.codecs.packed_int import PackedInt
from schemegen.formats import group_of
from schemegen.kernels.grids import PACKED
from schemegen.kernels.integers import quantize_int
from schemegen.kernels.torch_check import load

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class MseInt(PackedInt):
    """`mse`: llm-compressor's `memoryless_mse`, over whole matrices. Fused for INT4 and INT8 of BF16, else torch."""

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether no fused kernel takes this dtype, width and group size."""
        from schemegen.kernels.cpu_search import is_mse_fused

        return not is_mse_fused(dtype, self.weights.num_bits, self.group(columns))

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu_search import warm_up_mse

            warm_up_mse(self.weights.num_bits, group_of(self.weights, columns))

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed and weight_scale of whole matrices."""
        size, packed, scales = group_of(self.weights, weights.shape[-1]), out["weight_packed"], out["weight_scale"]
        bits = self.weights.num_bits
        if device != "cpu" or self.needs_torch(dtype, weights.shape[-1]):
            return int(quantize_int(weights, dtype, bits, size, packed, scales, device, PACKED, searched=True))
        from schemegen.kernels.cpu_search import quantize_mse

        for number in range(len(weights)):
            index: int = quantize_mse(weights[number], bits, size, packed[number], scales[number])
            if index >= 0:
                return number * int(weights[number].size) + index
        return -1


class SignedMseInt(PackedInt):
    """`signed_mse`: scales of both signs. Fused kernels for INT4 and INT8 in groups of whole eights, else torch."""

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether no fused kernel takes this width and group size."""
        from schemegen.kernels.cpu_search import is_signed_fused

        return not is_signed_fused(self.weights.num_bits, self.group(columns))

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        if not self.needs_torch(dtype, columns):
            from schemegen.kernels.cpu_search import warm_up_signed

            warm_up_signed(dtype, self.weights.num_bits, group_of(self.weights, columns))

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight_packed and weight_scale."""
        rows, packed, scales = map(rows_of, (weights, out["weight_packed"], out["weight_scale"]))
        bits, size = self.weights.num_bits, group_of(self.weights, weights.shape[-1])
        if device == "cpu" and not self.needs_torch(dtype, weights.shape[-1]):
            from schemegen.kernels.cpu_search import quantize_signed

            return quantize_signed(rows, dtype, bits, size, packed, scales)
        torch_signed = load("torch_signed", f"observer signed_mse of INT{bits}")
        return int(torch_signed.quantize_signed(rows, dtype, bits, size, packed, scales, device))
