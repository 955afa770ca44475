"""What kernels take: arrays of raw bits, checked before their addresses are handed out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UINTS: dict[str, type[np.uint16] | type[np.uint32]] = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32}


def check_array(name: str, array: npt.NDArray[Any], dtype: type, shape: tuple[int, ...], written: bool) -> None:
    """The kernels take addresses: what does not fit would be read or written out of bounds."""
    flags = array.flags
    if array.dtype != dtype or array.shape != shape or not flags.c_contiguous or (written and not flags.writeable):
        raise ValueError(
            f"{name} must be {'writable and ' if written else ''}C-contiguous {dtype.__name__} {shape}, "
            f"not {array.dtype} {array.shape}"
        )
