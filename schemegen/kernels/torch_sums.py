"""Sums along the last dimension in one order, whatever the device: that of torch's CPU kernels with AVX2.

Its vectors hold eight F32; 16-bit items come sixteen at a time, the second eight added to the first. Vectors go to four
columns in turn, long columns are summed in blocks, blocks of blocks and so on; then come the columns in order, and last
the eight lanes, after what filled no vector. Importing this module imports torch.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, Final

import torch

_LANES: Final = 8
_COLUMNS: Final = 4
_LEVELS: Final = 4
_LEAST_POWER: Final = 4


def row_sums(items: Any) -> Any:
    """Sums over the last dimension, added up in F32 and rounded to the items' dtype."""
    if items.device.type == "cpu" and torch.backends.cpu.get_cpu_capability() == "AVX2":
        return items.sum(-1)
    return ordered_row_sums(items)


def ordered_row_sums(items: Any) -> Any:
    """The same by elementwise additions alone."""
    size, width = items.shape[-1], _LANES * 4 // items.element_size()
    # A sum a column: every addition goes over contiguous memory.
    terms = items.reshape(-1, size).t().contiguous().float()
    if size < width:
        return _row_sum(terms.unsqueeze(1))[0].to(items.dtype).view(items.shape[:-1])
    whole = size // width * width
    vectors = terms[:whole].view(whole // width, width // _LANES, _LANES, -1)
    lanes = _row_sum(reduce(add, vectors.unbind(1)))
    total = reduce(add, [*terms[whole:], *lanes])
    return total.to(items.dtype).view(items.shape[:-1])


def _row_sum(vectors: Any) -> Any:
    """[lanes, …] of vectors [count, lanes, …]."""
    count = len(vectors) // _COLUMNS
    whole = vectors[: count * _COLUMNS].view(count, _COLUMNS, *vectors.shape[1:])
    columns = list(_cascaded(whole)) if count else [torch.zeros_like(vectors[0])] * _COLUMNS
    columns[0] = reduce(add, vectors[count * _COLUMNS :], columns[0])
    return reduce(add, columns)


def _cascaded(rows: Any) -> Any:
    """The sum over the first dimension, by blocks of 2**power rows, and by as many blocks, on each of four levels."""
    power = max(_LEAST_POWER, (len(rows) - 1).bit_length() // _LEVELS)
    levels = [torch.zeros_like(rows[0]) for _ in range(_LEVELS)]
    for number, row in enumerate(rows, 1):
        levels[0] += row
        for level in range(1, _LEVELS):
            if number & ((1 << level * power) - 1):
                break
            levels[level] += levels[level - 1]
            levels[level - 1].zero_()
    return reduce(add, levels)
