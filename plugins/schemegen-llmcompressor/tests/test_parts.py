"""A plan is cut into parts that hold what it quantizes, once, and nothing that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from schemegen_llmcompressor.parts import parts_of

from schemegen.backends.base import Job

MakeJob = Callable[..., Job]


@pytest.mark.parametrize("part_bytes", [1, 300_000, 1 << 40])
def test_every_quantized_tensor_is_in_one_part_of_its_shard_and_format(
    sample: Path, two_formats: Path, job: MakeJob, part_bytes: int
) -> None:
    plan = job(sample, two_formats).plan
    parts = parts_of(plan, part_bytes)
    assert sorted(tensor.name for part in parts for tensor in part.tensors) == sorted(
        tensor.name for tensor in plan.tensors if tensor.format is not None
    )
    for part in parts:
        assert {(tensor.format, tensor.source.file) for tensor in part.tensors} == {(part.format, part.shard)}
        assert len(part.tensors) == 1 or sum(tensor.source.nbytes for tensor in part.tensors) <= part_bytes
    assert len({part.file for part in parts}) == len(parts)


def test_parts_are_as_large_as_they_may_be(sample: Path, job: MakeJob) -> None:
    plan = job(sample).plan
    assert len(parts_of(plan)) == len({tensor.source.file for tensor in plan.tensors if tensor.format is not None})
