"""Integers wherever they are computed: on a CPU the fused kernels where there is one, torch for all else.

Arguments, shapes and results are those of `cpu` and `cpu_asymmetric`; `device` is `cpu` or one that `torch_device`
knows. Bits do not depend on it.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Final

from schemegen.errors import UnsupportedError, shortened
from schemegen.kernels.grids import BYTES, PACKED, grid_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]

#: All that torch computes, and fused kernels too where a code has its own byte; packed, these do.
INT_BITS: Final = range(2, 9)
FUSED_BITS: Final = (4, 8)
INSTALL_TORCH: Final = "pip install torch"


def fused_bits(style: str) -> tuple[int, ...]:
    """The widths that have fused CPU kernels."""
    return (*INT_BITS,) if style == BYTES else FUSED_BITS


def is_fused(num_bits: int, group_size: int | None, style: str = PACKED) -> bool:
    """Whether a CPU kernel takes groups of this size, of symmetric or asymmetric integers; None is a scale a row."""
    whole = group_size is None or group_size * grid_of(num_bits, style).field % 32 == 0
    return num_bits in fused_bits(style) and whole


@functools.cache
def torch_fault() -> str | None:
    """What keeps torch from use, with the way out, as what follows `torch, which`; None once it is imported."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return f"is not installed: {INSTALL_TORCH}"
        return _broken(error)
    except Exception as error:
        # A half-installed torch fails in any way: a shared library that is not there is an OSError.
        return _broken(error)
    return None


def _broken(error: Exception) -> str:
    told = shortened(str(error).partition("\n")[0])
    return f"cannot be imported ({type(error).__name__}: {told}): {INSTALL_TORCH} --force-reinstall"


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
    if device == "cpu" and not searched and is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        return cpu.quantize_int(weights, dtype, num_bits, group_size, packed, scales, style)
    return int(
        _torch(num_bits).quantize_int(
            weights, dtype, num_bits, group_size, packed, scales, device, style, searched=searched
        )
    )


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
    if device == "cpu" and is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        return cpu.apply_int(weights, dtype, num_bits, group_size, packed, scales, style)
    return int(_torch(num_bits).apply_int(weights, dtype, num_bits, group_size, packed, scales, device, style))


def recode_int(
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Bits, scales: Bits, style: str = PACKED
) -> int:
    """-1, or the flat index of the first weight whose stored code is not what it rounds to under the stored scale."""
    if is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        return cpu.recode_int(weights, dtype, num_bits, group_size, packed, scales, style)
    return int(_torch(num_bits).recode_int(weights, dtype, num_bits, group_size, packed, scales, style=style))


def decode_int(
    packed: Bits, dtype: str, num_bits: int, group_size: int, scales: Bits, weights_out: Bits, style: str = PACKED
) -> None:
    """Fill weights_out with code times scale."""
    if is_fused(num_bits, group_size, style):
        from schemegen.kernels import cpu

        cpu.decode_int(packed, dtype, num_bits, group_size, scales, weights_out, style)
    else:
        _torch(num_bits).decode_int(packed, dtype, num_bits, group_size, scales, weights_out, style=style)


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
    if fault := torch_fault():
        raise UnsupportedError(f"INT{num_bits} is computed with torch, which {fault}")
    return importlib.import_module(f"schemegen.kernels.{module}")
