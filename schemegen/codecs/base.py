"""What every codec does with matrices of one format.

Weights are [matrices, rows, columns] of raw bits: uint16 (BF16, F16) or uint32 (F32). What is stored comes by suffix,
as unsigned integers of the stored item size: [matrices, …], with those rows of a piece that belong to the weights'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from schemegen.formats import group_of, is_searched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from schemegen.scheme import Format

    Items = NDArray[np.unsignedinteger[Any]]
    Floats = NDArray[np.float32]
    Stored = Mapping[str, Items]
else:
    # For those who name them at run time.
    Items = Stored = Any


class Wrong(NamedTuple):
    """What is stored and should not be: the piece, (matrix, place in it, …), and what is the matter, as a predicate."""

    suffix: str
    place: tuple[int, ...]
    fault: str


class Codec(ABC):
    """One format's arithmetic. `weights` of a row block are one matrix's; bits never depend on the device."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self.weights = format.weights

    @property
    def is_searched(self) -> bool:
        """Whether ranges are searched for over whole matrices."""
        return is_searched(self.weights)

    def group(self, columns: int | None) -> int | None:
        """Weights that share a scale along a row; None for a scale a row, where the width is not known."""
        return self.weights.group_size if columns is None else group_of(self.weights, columns)

    @abstractmethod
    def needs_torch(self, dtype: str | None = None, columns: int | None = None) -> bool:
        """Whether a CPU computes it with torch, for want of a fused kernel; None stands for what most models have."""

    @abstractmethod
    def warm_up(self, dtype: str, columns: int) -> None:
        """Load, or compile, the kernel that `encode` uses on a CPU, where there is one."""

    @abstractmethod
    def warm_up_recode(self, dtype: str, columns: int) -> None:
        """Load, or compile, the kernel that `recode` uses, where there is one."""

    @abstractmethod
    def encode(self, weights: Items, dtype: str, out: Stored, shared: Floats | None = None, device: str = "cpu") -> int:
        """Fill every buffer of `out` but weight_shape; -1, or the flat index of the first NaN or infinite weight.

        `shared` [matrices] are the largest magnitudes that scales are made from, where the format shares them.
        Pieces of the whole matrix are absent from `out`, or empty, but for its first block of rows.
        """

    @abstractmethod
    def recode(self, weights: Items, dtype: str, stored: Stored) -> Wrong | None:
        """The first stored code that its weight does not round to under the stored scales, or None.

        Scales that no weight can be decoded by are wrong themselves. Pieces of the whole matrix are always there.
        """

    @abstractmethod
    def decode(self, stored: Stored, dtype: str, weights_out: Items) -> None:
        """Fill `weights_out` with the weights that the stored tensors stand for, as compressed-tensors decompresses."""


def rows_of(items: Items) -> Items:
    """[rows of all matrices, …]."""
    return items.reshape(-1, items.shape[-1])


def known(shared: Floats | None) -> Floats:
    """The largest magnitudes; ValueError where a format needs them and the caller gives none."""
    if shared is None:
        raise ValueError("scales are made from the largest magnitude of each matrix or layer, and none is given")
    return shared


def fill_whole(stored: Items | None, items: Items) -> None:
    """Fill what belongs to whole matrices, where it is due."""
    if stored is not None and stored.size:
        stored[...] = items.reshape(stored.shape)
