"""Integers wherever they are computed: on a CPU the fused kernels where there is one, torch for all else.

Arguments, shapes and results are those of `cpu` and `cpu_asymmetric`; `device` is `cpu` or one that `torch_device`
knows. Bits do not depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemegen.kernels.grids import BYTES, INT_BITS, PACKED, grid_of
from schemegen.kernels.torch_check import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]

#: Packed widths with fused kernels. torch computes all; fused kernels do too where a code has its own byte.
FUSED_BITS: Final = (4, 8)


def fused_bits(style: str) -> tuple[int, ...]:
    """The widths that have fused CPU kernels."""
    return (*INT_BITS,) if style == BYTES else FUSED_BITS


def is_fused(num_bits: int, group_size: int | None, style: str = PACKED) -> bool:
    """Whether a CPU kernel takes groups of this size, of symmetric or asymmetric integers; None is a scale a row."""
    whole = group_size is None or group_size * grid_of(num_bits, style).field % 32 == 0
    return num_bits in fused_bits(style) and whole


def quantize_int(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Bits,
    scales: Bits,
    device: str = "cpu",
    style: str = PACKED,
    searched: bool = False,
) -> int:
    """Fill packed and scales; -1, or the flat index of the first NaN or infinite weight."""
    given = weights, dtype, num_bits, group_size, packed, scales
    if device == "cpu" and not searched and is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        return cpu.quantize_int(*given, style)
    return int(_torch(num_bits).quantize_int(*given, device, style, searched))


def apply_int(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Bits,
    scales: Bits,
    device: str = "cpu",
    style: str = PACKED,
) -> int:
    """Fill packed under the scales given; -1, or the flat index of the first NaN or infinite weight."""
    given = weights, dtype, num_bits, group_size, packed, scales
    if device == "cpu" and is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        return cpu.apply_int(*given, style)
    return int(_torch(num_bits).apply_int(*given, device, style))


def recode_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Bits, scales: Bits, style: str = PACKED
) -> int:
    """-1, or the flat index of the first weight whose stored code is not what it rounds to under the stored scale."""
    given = weights, dtype, num_bits, group_size, packed, scales
    if is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        return cpu.recode_int(*given, style)
    return int(_torch(num_bits).recode_int(*given, style=style))


def decode_int(
    packed: Bits, dtype: str, num_bits: int, group_size: int, scales: Bits, weights_out: Bits, style: str = PACKED
) -> None:
    """Fill weights_out with code times scale."""
    given = packed, dtype, num_bits, group_size, scales, weights_out
    if is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        cpu.decode_int(*given, style)
    else:
        _torch(num_bits).decode_int(*given, style=style)


def quantize_asymmetric(
    weights: Bits,
    dtype: str,
    num_bits: int,
    group_size: int,
    packed: Bits,
    scales: Bits,
    zeros: Bits,
    device: str = "cpu",
    searched: bool = False,
) -> int:
    """Fill packed, scales and zeros; -1, or the flat index of the first NaN or infinite weight."""
    given = weights, dtype, num_bits, group_size, packed, scales, zeros
    if device == "cpu" and not searched and is_fused(num_bits, group_size):
        from schemegen.kernels import cpu_asymmetric

        return cpu_asymmetric.quantize_asymmetric(*given)
    return int(_torch(num_bits, "torch_asymmetric").quantize_asymmetric(*given, device, searched))


def recode_asymmetric(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Bits, scales: Bits, zeros: Bits
) -> int:
    """-1, or the flat index of the first weight whose code under the stored scale and zero point is another."""
    given = weights, dtype, num_bits, group_size, packed, scales, zeros
    if is_fused(num_bits, group_size):
        from schemegen.kernels import cpu_asymmetric

        return cpu_asymmetric.recode_asymmetric(*given)
    return int(_torch(num_bits, "torch_asymmetric").recode_asymmetric(*given))


def decode_asymmetric(
    packed: Bits, dtype: str, num_bits: int, group_size: int, scales: Bits, zeros: Bits, weights_out: Bits
) -> None:
    """Fill weights_out with code minus zero point, times scale."""
    given = packed, dtype, num_bits, group_size, scales, zeros, weights_out
    if is_fused(num_bits, group_size):
        from schemegen.kernels import cpu_asymmetric

        cpu_asymmetric.decode_asymmetric(*given)
    else:
        _torch(num_bits, "torch_asymmetric").decode_asymmetric(*given)


def _torch(num_bits: int, module: str = "torch_int") -> Any:
    return load(module, f"INT{num_bits}")
