"""Finds NaN and infinity in stored bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXPONENTS: Final = {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F800000}


def first_nonfinite(bits: NDArray[np.unsignedinteger[Any]], dtype: str) -> int | None:
    """The index of the first item, in storage order, whose exponent is all ones; None where there is none."""
    mask = bits.dtype.type(_EXPONENTS[dtype])
    found = ((bits & mask) == mask).reshape(-1)
    first = int(found.argmax()) if found.size else 0
    return first if found.size and found[first] else None
