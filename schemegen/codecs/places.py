"""Where something stored is wrong, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemegen.codecs.base import Wrong
from schemegen.kernels.floats import first_unusable

if TYPE_CHECKING:
    from schemegen.codecs.base import Items


def place_of(suffix: str, index: int, shape: tuple[int, ...]) -> Wrong:
    """A stored code, by the flat index of its weight over the weights' shape."""
    fault = "is not the code that the source's weight rounds to under the stored scale"
    return Wrong(suffix, unraveled(index, shape), fault)


def unusable_scale(scales: Items, dtype: str, suffix: str = "weight_scale") -> Wrong | None:
    """The first scale that is NaN, infinite or zero, if any; `dtype` is the scales' own."""
    index = first_unusable(scales, dtype)
    return None if index < 0 else Wrong(suffix, unraveled(index, scales.shape), "is zero, infinite or no number")


def unraveled(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place of an item, by its flat index."""
    place: list[int] = []
    for length in reversed(shape):
        index, here = divmod(index, length)
        place.append(here)
    return tuple(place[::-1])
