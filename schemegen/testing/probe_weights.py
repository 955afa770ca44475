"""Weights that a backend is tried on, as raw bits of each dtype: noise, and rows that are awkward to round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

from schemegen.kernels.floats import FLOAT_BITS, SMALLEST_NORMAL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]
    Floats = NDArray[np.float32]

_SPREAD: Final = 0.02
_TINY: Final = 1e-3


def noise(dtype: str, shape: tuple[int, ...], seed: int) -> Bits:
    """Normal noise as trained weights have it, the same for every format."""
    from schemegen.kernels.arrays import narrowed

    return narrowed(_normal(prod(shape), seed).reshape(shape), dtype)


def awkward(dtype: str, columns: int) -> Bits:
    """One row of each kind in AWKWARD, [kinds, columns]."""
    import numpy as np

    return np.stack([row(dtype, columns) for row in AWKWARD.values()])


def _normal(count: int, seed: int) -> Floats:
    import numpy as np

    return (np.random.default_rng(seed).standard_normal(count) * _SPREAD).astype(np.float32)


def _of_bits(dtype: str, bits: Any) -> Bits:
    import numpy as np

    return np.asarray(bits).astype(np.uint32 if dtype == "F32" else np.uint16)


def _sign(dtype: str) -> int:
    return FLOAT_BITS[dtype].magnitude + 1


def _filled(bits: Callable[[str], int]) -> Callable[[str, int], Bits]:
    import numpy as np

    return lambda dtype, columns: _of_bits(dtype, np.full(columns, bits(dtype)))


def _valued(values: Callable[[Floats, str], Any]) -> Callable[[str, int], Bits]:
    """A row made of noise."""

    def row(dtype: str, columns: int) -> Bits:
        import numpy as np

        from schemegen.kernels.arrays import narrowed

        return narrowed(np.asarray(values(_normal(columns, 7), dtype), np.float32), dtype)

    return row


def _zeros_of_both_signs(dtype: str, columns: int) -> Bits:
    import numpy as np

    return _of_bits(dtype, np.arange(columns) % 2 * _sign(dtype))


def _denormals(dtype: str, columns: int) -> Bits:
    import numpy as np

    rng = np.random.default_rng(11)
    smallest = 1 << {"BF16": 7, "F16": 10, "F32": 23}[dtype]
    return _of_bits(dtype, rng.integers(1, smallest, columns) + rng.integers(0, 2, columns) * _sign(dtype))


def _large(dtype: str) -> float:
    """A quarter of the largest number, so that the span of both signs is one too."""
    return {"F16": 2.0**14}.get(dtype, 2.0**126)


def _with_outlier(values: Floats, dtype: str) -> Floats:
    import numpy as np

    return np.where(np.arange(values.size) == values.size // 3, np.float32(1000 * _SPREAD), values)


def _steps(values: Floats, dtype: str) -> Floats:
    """Halves from -7.5 to 7.5: under a scale of 1 every second one lies between two codes of INT4."""
    import numpy as np

    return ((np.arange(values.size) % 31 - 15) / 2).astype(np.float32)


AWKWARD: Final[Mapping[str, Callable[[str, int], Bits]]] = {
    "zeros": lambda dtype, columns: _filled(lambda _: 0)(dtype, columns),
    "negative zeros": lambda dtype, columns: _filled(_sign)(dtype, columns),
    "zeros of both signs": _zeros_of_both_signs,
    "the smallest denormal": lambda dtype, columns: _filled(lambda _: 1)(dtype, columns),
    "denormals": _denormals,
    "the smallest normal": _valued(lambda values, dtype: values * 0 + SMALLEST_NORMAL[dtype]),
    "tiny values": _valued(lambda values, dtype: values * _TINY),
    "huge values": _valued(lambda values, dtype: (values > 0) * 2.0 * _large(dtype) - _large(dtype)),
    "one outlier": _valued(_with_outlier),
    "one value": _valued(lambda values, dtype: values * 0 - 0.01),
    "both signs of one value": _valued(lambda values, dtype: (values > 0) * 0.02 - 0.01),
    "positive values": _valued(lambda values, dtype: abs(values)),
    "negative values": _valued(lambda values, dtype: -abs(values)),
    "halves": _valued(_steps),
}
"""Rows by what they hold: (dtype, columns) → bits."""
