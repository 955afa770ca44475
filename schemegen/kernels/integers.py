"""Symmetric integers wherever they are computed: on a CPU the fused kernels where there is one, torch for all else.

Arguments, shapes and results are those of `cpu`; `device` is `cpu` or one that `torch_device` knows. Bits do not depend
on it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from schemegen.errors import UnsupportedError, shortened

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]

#: Bits that have a fused CPU kernel, and all that torch computes.
FUSED_BITS: Final = (4, 8)
INT_BITS: Final = range(2, 9)
INSTALL_TORCH: Final = "pip install torch"


def is_fused(num_bits: int, group_size: int | None) -> bool:
    """Whether a CPU kernel takes groups of this size; None is a scale a row."""
    return num_bits in FUSED_BITS and (group_size is None or group_size * num_bits % 32 == 0)


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
    weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Bits, scales: Bits, device: str = "cpu"
) -> int:
    """Fill packed and scales; -1, or the flat index of the first NaN or infinite weight."""
    if device == "cpu" and is_fused(num_bits, group_size):
        from schemegen.kernels import cpu

        return cpu.quantize_int(weights, dtype, num_bits, group_size, packed, scales)
    return int(_torch(num_bits).quantize_int(weights, dtype, num_bits, group_size, packed, scales, device))


def recode_int(weights: Bits, dtype: str, num_bits: int, group_size: int, packed: Bits, scales: Bits) -> int:
    """-1, or the flat index of the first weight whose stored code is not what it rounds to under the stored scale."""
    if is_fused(num_bits, group_size):
        from schemegen.kernels import cpu

        return cpu.recode_int(weights, dtype, num_bits, group_size, packed, scales)
    return int(_torch(num_bits).recode_int(weights, dtype, num_bits, group_size, packed, scales))


def decode_int(packed: Bits, dtype: str, num_bits: int, group_size: int, scales: Bits, weights_out: Bits) -> None:
    """Fill weights_out with code times scale."""
    if is_fused(num_bits, group_size):
        from schemegen.kernels import cpu

        cpu.decode_int(packed, dtype, num_bits, group_size, scales, weights_out)
    else:
        _torch(num_bits).decode_int(packed, dtype, num_bits, group_size, scales, weights_out)


def _torch(num_bits: int) -> Any:
    if fault := torch_fault():
        raise UnsupportedError(f"INT{num_bits} is computed with torch, which {fault}")
    from schemegen.kernels import torch_int

    return torch_int
