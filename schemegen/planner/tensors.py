"""Source tensors and what they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any, NamedTuple

from schemegen.architectures.base import Part, Role


class Action(StrEnum):
    """What happens to a source tensor."""

    COPY = "copy"
    QUANTIZE = "quantize"


class Output(NamedTuple):
    """One stored tensor: dtype code, shape, shard file, byte offset within the shard's data section, bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    offset: int
    nbytes: int

    @property
    def suffix(self) -> str:
        """The last word of its name: which piece of the format it is, such as `weight_scale`."""
        return self.name.rpartition(".")[2]


class Source(NamedTuple):
    """Where a tensor's bytes lie in the source: shard file, absolute byte offset, dtype code, shape, bytes."""

    file: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One source tensor and its fate.

    A quantized tensor is `matrices` equal matrices, one after another in the source; its outputs come matrix by
    matrix, each with the same number of pieces. `rule` names the rule that decided. `stacked` are the projections that
    a stack of experts holds, none of any other tensor.
    """

    name: str
    role: Role
    part: Part
    layer: int | None
    expert: int | None
    projection: str | None
    action: Action
    rule: str
    format: str | None
    source: Source
    matrices: int
    outputs: tuple[Output, ...]
    stacked: tuple[str, ...] = ()

    @property
    def is_matrix(self) -> bool:
        """Whether it is something that a format applies to."""
        return is_matrix(self.name, self.source.shape, bool(self.stacked))

    @property
    def pieces(self) -> tuple[Output, ...]:
        """The outputs of the first matrix: one per piece of the format."""
        return self.outputs[: len(self.outputs) // self.matrices]

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that the outputs belong to, one a matrix."""
        return tuple(output.name.rpartition(".")[0] for output in self.outputs[:: len(self.pieces)])

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """[rows, columns] of one matrix of a quantized tensor."""
        columns = self.source.shape[-1]
        return prod(self.source.shape[:-1]) // self.matrices, columns

    @property
    def nbytes(self) -> int:
        """Bytes of all outputs."""
        return sum(output.nbytes for output in self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """The tensor in full, as JSON values."""
        row = {name: getattr(self, name) for name in self.__slots__}
        return row | {"source": self.source._asdict(), "outputs": [output._asdict() for output in self.outputs]}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> PlannedTensor:
        """The tensor that `to_dict` wrote."""
        source = row["source"] | {"shape": tuple(row["source"]["shape"])}
        outputs = tuple(Output(**output | {"shape": tuple(output["shape"])}) for output in row["outputs"])
        kinds = {"role": Role(row["role"]), "part": Part(row["part"]), "action": Action(row["action"])}
        stacked = tuple(row.get("stacked", ()))
        return cls(**{**row, **kinds, "source": Source(**source), "outputs": outputs, "stacked": stacked})


def is_matrix(name: str, shape: Sequence[int], stacked: bool) -> bool:
    """Whether a tensor is something a format applies to: a 2-D module weight or a stack of experts."""
    return stacked or (len(shape) == 2 and name.endswith(".weight"))


@dataclass(frozen=True, slots=True)
class Unit:
    """Tensors that are computed together: one kept tensor, or a stack of same-shaped matrices of one layer."""

    index: int
    tensors: tuple[PlannedTensor, ...]

    @property
    def action(self) -> Action:
        """What happens to every tensor of the unit."""
        return self.tensors[0].action
