"""Compares two outputs of MX formats but for the groups that llm-compressor loses.

Where a group's largest magnitude reaches 1.75 times the dtype's top power of two, compressed-tensors stores scale 127
and codes of zero; schemegen keeps the power that fits (docs/explanation/decisions.md).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np

from bench.compare import Stored, stored_tensors

_Content = tuple[str, tuple[int, ...], bytes]
#: E8M0's 1.
_ONE: Final = 127


class DifferentError(Exception):
    """Another computes other bits; the message names the first tensor."""


def lost_groups(ours: Path, theirs: Path, names: Collection[str] | None = None) -> int:
    """How many MX groups `theirs` has lost; all else, of `names` or of everything, is equal, or a DifferentError."""
    mine, other = stored_tensors(ours), stored_tensors(theirs)
    wanted = mine.keys() if names is None else names
    if different := set(wanted) ^ other.keys():
        raise DifferentError(f"{min(different)}: only one of both makes it")
    return sum(_lost(name, (ours, mine), (theirs, other)) for name in sorted(wanted))


def content(folder: Path, stored: Stored) -> _Content:
    """Dtype, shape and bytes of a stored tensor."""
    with (folder / stored.file).open("rb") as file:
        file.seek(stored.start)
        return stored.dtype, stored.shape, file.read(stored.stop - stored.start)


_Side = tuple[Path, dict[str, Stored]]


def _lost(name: str, ours: _Side, theirs: _Side) -> int:
    mine, other = (content(folder, tensors[name]) for folder, tensors in (ours, theirs))
    if mine == other:
        return 0
    scale = f"{name.rpartition('.')[0]}.weight_scale"
    if scale not in ours[1]:
        raise DifferentError(f"{name}: other bits, dtype or shape")
    both = [content(folder, tensors[scale]) for folder, tensors in (ours, theirs)]
    gone = _gone(mine, other, both[0], both[1])
    if gone is None:
        raise DifferentError(f"{name}: other bits, dtype or shape")
    return gone if name == scale else 0


def _gone(mine: _Content, other: _Content, mine_scale: _Content, other_scale: _Content) -> int | None:
    """Groups that differ, where each has scale 127 and codes of zero in the other: MX at the top of the dtype."""
    if mine[:2] != other[:2] or mine_scale[0] != "U8":
        return None
    scales = [np.frombuffer(stored[2], np.uint8) for stored in (mine_scale, other_scale)]
    codes = [np.frombuffer(stored[2], np.uint8).reshape(scales[0].size, -1) for stored in (mine, other)]
    differs = (codes[0] != codes[1]).any(axis=1) | (scales[0] != scales[1])
    # The signs of zeros stay: of two FP4 codes a byte, or of one FP8 code.
    sizes = np.uint8(0x7F if mine[0] == "F8_E4M3" else 0x77)
    empty = ~(codes[1] & sizes).any(axis=1) if mine != mine_scale else True
    is_lost = (scales[1] == _ONE) & (scales[0] > _ONE) & empty
    return None if (differs & ~is_lost).any() else int(differs.sum())
