"""What kernels take: arrays of raw bits, checked before their addresses are handed out. numpy alone is imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from schemegen.errors import UnsupportedError
from schemegen.kernels.floats import FLOAT_BITS

UINTS: dict[str, type[np.uint16] | type[np.uint32]] = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32}


def check_array(name: str, array: npt.NDArray[Any], dtype: type, shape: tuple[int, ...], written: bool) -> None:
    """The kernels take addresses: what does not fit would be read or written out of bounds."""
    flags = array.flags
    if array.dtype != dtype or array.shape != shape or not flags.c_contiguous or (written and not flags.writeable):
        raise ValueError(
            f"{name} must be {'writable and ' if written else ''}C-contiguous {dtype.__name__} {shape}, "
            f"not {array.dtype} {array.shape}"
        )


def check_dtype(dtype: str) -> None:
    """UnsupportedError where there is no kernel for weights of the dtype."""
    if dtype not in UINTS:
        raise UnsupportedError(f"dtype {dtype!r} cannot be quantized: choose one of {', '.join(UINTS)}")


def check_groups(cols: int, group_size: int) -> None:
    """UnsupportedError where groups do not fill a row."""
    if cols % group_size:
        raise UnsupportedError(f"group size {group_size} does not divide the width {cols}: choose one that does")


def scales_of(magnitudes: npt.NDArray[np.float32], dtype: str, divisor: float) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Symmetric scales as bits of the dtype, of finite largest magnitudes; the dtype's epsilon in place of zero."""
    scales = narrowed(np.asarray(magnitudes, np.float32) / np.float32(divisor), dtype)
    scales[scales == 0] = FLOAT_BITS[dtype].epsilon
    return scales


def narrowed(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Bits of the nearest value of the dtype, ties to even; NaN is not taken."""
    if dtype == "F16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    if dtype == "F32":
        return bits.copy()
    return (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)) >> np.uint32(16)).astype(np.uint16)


def widened(bits: npt.NDArray[np.unsignedinteger[Any]], dtype: str) -> npt.NDArray[np.float32]:
    """The values of bits of the dtype, exactly."""
    if dtype == "BF16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view(np.float16 if dtype == "F16" else np.float32).astype(np.float32)
