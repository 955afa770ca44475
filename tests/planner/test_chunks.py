"""Chunks tile source and output exactly, whatever the chunk size."""

from __future__ import annotations

import pytest

from schemegen.architectures.base import Part, Role
from schemegen.planner import Action, Chunk, Output, PlannedTensor, Source, chunks_of
from schemegen.scheme import Format

INT4 = Format.model_validate({"num_bits": 4, "group_size": 32})


def experts(count: int, rows: int, columns: int) -> PlannedTensor:
    sizes = {"weight_packed": rows * columns // 2, "weight_scale": rows * columns // 16, "weight_shape": 16}
    shapes = {"weight_packed": (rows, columns // 8), "weight_scale": (rows, columns // 32), "weight_shape": (2,)}
    starts = {"weight_shape": 0, "weight_packed": 16 * count, "weight_scale": (16 + rows * columns // 2) * count}
    outputs = tuple(
        Output(f"e.{matrix}.{suffix}", "X", shapes[suffix], "f", starts[suffix] + matrix * size, size)
        for matrix in range(count)
        for suffix, size in sizes.items()
    )
    source = Source("s", 100, "BF16", (count, rows, columns), count * rows * columns * 2)
    return PlannedTensor(
        "e", Role.ROUTED_EXPERT, Part.TEXT, 0, None, None, Action.QUANTIZE, "r", "int4", source, count, outputs
    )


def covered(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return sorted((span.offset, span.nbytes) for chunk in chunks for span in chunk.spans if span.nbytes)


@pytest.mark.parametrize("chunk_bytes", [1, 100, 3000, 4096, 9000, 1 << 20])
def test_every_byte_is_read_and_written_once(chunk_bytes: int) -> None:
    tensor = experts(5, 32, 64)
    chunks = list(chunks_of(tensor, INT4, chunk_bytes))
    assert len({chunk.key for chunk in chunks}) == len(chunks)
    at = tensor.source.offset
    for chunk in chunks:
        assert chunk.offset == at
        matrices, rows, columns = chunk.shape
        assert chunk.nbytes == matrices * rows * columns * 2
        assert chunk.nbytes <= max(chunk_bytes, columns * 2)
        at += chunk.nbytes
    assert at == tensor.source.offset + tensor.source.nbytes
    end = 0
    for offset, nbytes in covered(chunks):
        assert offset == end
        end += nbytes
    assert end == tensor.nbytes


def test_row_blocks_carry_pieces_without_rows_once() -> None:
    chunks = list(chunks_of(experts(2, 32, 64), INT4, 1024))
    assert [chunk.spans[2].nbytes for chunk in chunks] == [16, 0, 0, 0, 16, 0, 0, 0]
    assert [chunk.first for chunk in chunks] == [(m, r) for m in range(2) for r in range(0, 32, 8)]


def test_a_kept_tensor_is_copied_in_pieces() -> None:
    output = Output("n", "BF16", (50,), "f", 8, 100)
    tensor = PlannedTensor(
        "n",
        Role.NORM,
        Part.TEXT,
        0,
        None,
        None,
        Action.COPY,
        "no rule",
        None,
        Source("s", 60, "BF16", (50,), 100),
        1,
        (output,),
    )
    assert [(c.offset, c.nbytes, c.spans[0].offset) for c in chunks_of(tensor, None, 40)] == [
        (60, 40, 8),
        (100, 40, 48),
        (140, 20, 88),
    ]
