"""What became of every matrix of a quantized checkpoint: its role and place, and its format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from schemegen.architectures.base import Architecture, Part, Role, TensorInfo
from schemegen.checkpoint.model import Checkpoint, TensorHeader
from schemegen.described.finder import Finder
from schemegen.described.groups import Group
from schemegen.described.stored import Stored, contents_of, matrix_shape
from schemegen.planner.decide import holds_matrix
from schemegen.rule import held_by

_WEIGHT: Final = ".weight"
#: No config tells what it was; rules do not ask.
_DTYPE: Final = "BF16"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix as it was before: its header then, what it is, and what it became, None where it is kept."""

    header: TensorHeader
    info: TensorInfo
    use: str | None


class Kind(NamedTuple):
    """What rules without names can tell of a matrix, or of a stack of them; `held` are the projections in it."""

    role: Role
    part: Part
    layer: int | None
    projection: str | None
    held: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: TensorInfo) -> Kind:
        """The kind of a tensor."""
        return cls(info.role, info.part, info.layer, info.projection, held_by(info))


def matrices_of(checkpoint: Checkpoint, architecture: Architecture, groups: Sequence[Group]) -> list[Matrix]:
    """Every matrix, those that are quantized first, with its group's name for its format.

    CheckpointError for a module that is stored otherwise than a group says.
    """
    contents = contents_of(checkpoint.tensors)
    finder = Finder(groups, architecture)
    found = [_quantized(stored, architecture, finder) for stored in contents.quantized]
    return [*found, *_kept(contents.plain, architecture)]


def _quantized(stored: Stored, architecture: Architecture, finder: Finder) -> Matrix:
    name = stored.name + _WEIGHT
    info = architecture.identify(name)
    group = finder.group_of(stored)
    shape = matrix_shape(stored, group.format) or ()
    return Matrix(TensorHeader(name, _DTYPE, shape, stored.main.shard, 0, 0), info, group.name)


def _kept(tensors: Sequence[TensorHeader], architecture: Architecture) -> Iterator[Matrix]:
    for header in tensors:
        info = architecture.identify(header.name)
        if holds_matrix(header, info):
            yield Matrix(header, info, None)


def usual(matrices: Sequence[Matrix]) -> Mapping[Kind, str | None]:
    """What became of most matrices of each kind."""
    counts: dict[Kind, Counter[str | None]] = {}
    for matrix in matrices:
        counts.setdefault(Kind.of(matrix.info), Counter())[matrix.use] += 1
    return {kind: uses.most_common(1)[0][0] for kind, uses in counts.items()}
