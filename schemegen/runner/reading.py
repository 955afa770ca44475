"""Reads of source shards while a plan is carried out."""

from __future__ import annotations

from collections.abc import Mapping

from schemegen.errors import CheckpointError
from schemegen.planner import PlannedTensor
from schemegen.positional import read_into


def fill(sources: Mapping[str, int], tensor: PlannedTensor, offset: int, view: memoryview) -> None:
    """Fill `view` with bytes of a tensor's shard; CheckpointError where the disk fails or the file ends early."""
    file = tensor.source.file
    try:
        got = read_into(sources[file], view, offset)
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}; run the same command again to go on") from error
    if got < len(view):
        raise CheckpointError(f"{file} ends early, within tensor {tensor.name}; the source changed under the run")
