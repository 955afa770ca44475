"""A plan cut into parts: what llm-compressor is given at a time, and what it has to make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from schemegen.formats import Shared, shared_of

if TYPE_CHECKING:
    from schemegen.planner import Plan
    from schemegen.planner.tensors import Output, PlannedTensor

#: Source bytes of a part, unless one tensor is larger, or all of a shard's in a format with shared scales:
#: llm-compressor holds a part in memory as a whole, and wants in it a set's first module, not the others alone.
PART_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """Tensors of one source shard that take one format. `file` names the part, and the file that it becomes."""

    file: str
    format: str
    shard: str
    tensors: tuple[PlannedTensor, ...]

    @property
    def outputs(self) -> Iterator[Output]:
        """All that the plan names of these tensors."""
        return (output for tensor in self.tensors for output in tensor.outputs)


def parts_of(plan: Plan, part_bytes: int = PART_BYTES) -> tuple[Part, ...]:
    """Every quantized tensor of the plan in exactly one part, and no kept one in any."""
    cut = [tensors for group in _groups(plan) for tensors in _cut(group, _limit(plan, group[0], part_bytes))]
    return tuple(
        Part(f"{number:05}.safetensors", tensors[0].format or "", tensors[0].source.file, tuple(tensors))
        for number, tensors in enumerate(cut, start=1)
    )


def _limit(plan: Plan, tensor: PlannedTensor, part_bytes: int) -> float:
    return inf if shared_of(plan.format_of(tensor)) is Shared.FUSED else part_bytes


def _groups(plan: Plan) -> list[list[PlannedTensor]]:
    """The quantized tensors by format and shard."""
    groups: dict[tuple[str, str], list[PlannedTensor]] = {}
    for tensor in plan.tensors:
        if tensor.format is not None:
            groups.setdefault((tensor.format, tensor.source.file), []).append(tensor)
    return list(groups.values())


def _cut(tensors: list[PlannedTensor], part_bytes: float) -> Iterator[list[PlannedTensor]]:
    part: list[PlannedTensor] = []
    size = 0
    for tensor in tensors:
        if part and size + tensor.source.nbytes > part_bytes:
            yield part
            part, size = [], 0
        part.append(tensor)
        size += tensor.source.nbytes
    yield part
