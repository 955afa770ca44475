"""Where every output lies in its shard. Safetensors allows no gaps: larger items first keeps all aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemegen.checkpoint.headers import DTYPE_BITS
from schemegen.formats import Piece


@dataclass(frozen=True, slots=True)
class Block:
    """The same piece of `count` matrices, `nbytes` each, stored one after another."""

    piece: Piece
    count: int
    nbytes: int


def lay_out(tensors: Sequence[tuple[str, Sequence[Block]]]) -> list[list[int]]:
    """For each (shard, blocks) of the tensors in order, the byte offset of each block in the shard's data section."""
    offsets = [[0] * len(blocks) for _, blocks in tensors]
    ends: dict[str, int] = {}
    order = [
        (-DTYPE_BITS[block.piece.dtype], tensor, position)
        for tensor, (_, blocks) in enumerate(tensors)
        for position, block in enumerate(blocks)
    ]
    for _, tensor, position in sorted(order):
        shard, blocks = tensors[tensor]
        start = ends.get(shard, 0)
        offsets[tensor][position] = start
        ends[shard] = start + blocks[position].count * blocks[position].nbytes
    return offsets
