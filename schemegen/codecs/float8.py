"""float-quantized: FP8 E4M3, a scale a row, a block or the whole matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from schemegen.codecs.base import Codec, Wrong, fill_whole, known
from schemegen.codecs.places import place_of, unusable_scale
from schemegen.kernels.torch_check import load

if TYPE_CHECKING:
    from schemegen.codecs.base import Floats, Items, Stored


class Float8(Codec):
    """A scale of the weights' dtype for every block of (height, width) weights; torch searches ranges for `mse`."""

    is_mx: ClassVar[bool] = False

    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether ranges are searched for."""
        return self.is_searched

    def warm_up(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel, if there is one."""
        from schemegen.kernels.cpu_fp8 import warm_up

        if self._is_whole:
            warm_up("quantize_under", dtype)
        elif not self.needs_torch(dtype, columns):
            warm_up("quantize", dtype, int(self.is_mx))

    def warm_up_recode(self, dtype: str, columns: int) -> None:
        """Load or compile the kernel."""
        from schemegen.kernels.cpu_fp8 import warm_up

        warm_up("recode", dtype, int(self.is_mx))

    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill weight and weight_scale."""
        if self._is_whole:
            return self._encode_whole(weights, dtype, out, shared, device)
        block, codes, scales = self._block(weights.shape), out["weight"], out["weight_scale"]
        if device == "cpu" and not self.needs_torch():
            from schemegen.kernels.cpu_fp8 import quantize_fp8

            return quantize_fp8(weights, dtype, block, codes, scales, self.is_mx)
        searches = self.needs_torch()
        return int(_torch().quantize_fp8(weights, dtype, block, codes, scales, self.is_mx, device, searches))

    def _encode_whole(self, weights: Items, dtype: str, out: Stored, shared: Floats | None, device: str) -> int:
        from schemegen.kernels import cpu_fp8
        from schemegen.kernels.arrays import scales_of

        scales = scales_of(known(shared), dtype, cpu_fp8.LARGEST)
        fill_whole(out.get("weight_scale"), scales)
        kernels: Any = cpu_fp8 if device == "cpu" else _torch()
        place = {} if device == "cpu" else {"device": device}
        return int(kernels.quantize_fp8_under(weights, dtype, out["weight"], scales.reshape(-1, 1, 1), **place))

    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """A scale that is no number, or the first code that is not its weight's."""
        from schemegen.kernels.cpu_fp8 import recode_fp8

        if wrong := unusable_scale(stored["weight_scale"], "U8" if self.is_mx else dtype):
            return wrong
        scales = self._by_matrix(stored["weight_scale"])
        index = recode_fp8(weights, dtype, self._block(weights.shape), stored["weight"], scales, self.is_mx)
        return None if index < 0 else place_of("weight", index, weights.shape)

    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Code times scale, rounded to the dtype; by MX scales to BF16 before, as compressed-tensors does."""
        from schemegen.kernels.cpu_fp8 import decode_fp8

        scales = self._by_matrix(stored["weight_scale"])
        decode_fp8(stored["weight"], dtype, self._block(weights_out.shape), scales, weights_out, self.is_mx)

    @property
    def _is_whole(self) -> bool:
        return self.weights.strategy == "tensor"

    def _block(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Height and width of what has one scale."""
        _, rows, columns = shape
        return self.weights.block_structure or (rows if self._is_whole else 1, self.weights.group_size or columns)

    def _by_matrix(self, scales: Items) -> Items:
        """[matrices, down, across]."""
        return scales.reshape(-1, 1, 1) if self._is_whole else scales


def _torch() -> Any:
    return load("torch_fp8", "FP8")
