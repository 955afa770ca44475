"""The plan: a frozen contract between planner, backends, writer, verifier and card. JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from schemegen.architectures.base import Part, Role
from schemegen.planner.rules import ResolvedRule
from schemegen.scheme import Format, Scheme


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
    matrix, each with the same number of pieces. `rule` names the rule that decided.
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


@dataclass(frozen=True, slots=True)
class Unit:
    """Tensors that are computed together: one kept tensor, or a stack of same-shaped matrices of one layer."""

    index: int
    tensors: tuple[PlannedTensor, ...]

    @property
    def action(self) -> Action:
        """What happens to every tensor of the unit."""
        return self.tensors[0].action


class RoleTotals(NamedTuple):
    """Sums over the tensors of one part and role."""

    part: Part
    role: Role
    action: Action
    format: str | None
    tensors_in: int
    tensors_out: int
    parameters: int
    bytes_in: int
    bytes_out: int


class Totals(NamedTuple):
    """Sums over the plan; bytes are those of tensors, without file headers."""

    tensors_in: int
    tensors_out: int
    bytes_in: int
    bytes_out: int
    by_role: tuple[RoleTotals, ...]


@dataclass(frozen=True)
class Plan:
    """Every tensor of a model under a scheme, with what it becomes and where it is written.

    `rules` are the resolved policy in order; `files` are the output shards in source order.
    """

    model_id: str
    revision: str | None
    architecture: str
    scheme: Scheme
    rules: tuple[ResolvedRule, ...]
    files: tuple[str, ...]
    tensors: tuple[PlannedTensor, ...]
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The tensors grouped into what is computed together, in plan order."""
        return tuple(Unit(index, tuple(group)) for index, group in enumerate(_grouped(self.tensors)))

    @cached_property
    def totals(self) -> Totals:
        """Counts and bytes, in and out, whole and by part and role."""
        return _totals(self.tensors)

    @cached_property
    def formats_used(self) -> Mapping[str, Format]:
        """The scheme's formats that tensors have, by name in plan order."""
        names = dict.fromkeys(tensor.format for tensor in self.tensors if tensor.format is not None)
        return {name: self.scheme.formats[name] for name in names}

    def format_of(self, tensor: PlannedTensor) -> Format:
        """The format of a quantized tensor."""
        assert tensor.format is not None
        return self.scheme.formats[tensor.format]

    @cached_property
    def outputs(self) -> dict[str, list[Output]]:
        """The outputs of every shard, in file order."""
        found: dict[str, list[Output]] = {file: [] for file in self.files}
        for tensor in self.tensors:
            for output in tensor.outputs:
                found[output.file].append(output)
        return {file: sorted(outputs, key=lambda output: output.offset) for file, outputs in found.items()}

    def to_json(self) -> str:
        """The plan as JSON, with its totals."""
        totals = self.totals._asdict() | {"by_role": [row._asdict() for row in self.totals.by_role]}
        body = {
            "model_id": self.model_id,
            "revision": self.revision,
            "architecture": self.architecture,
            "scheme": self.scheme.model_dump(mode="json"),
            "rules": [rule.to_dict() for rule in self.rules],
            "files": self.files,
            "totals": totals,
            "notes": self.notes,
            "tensors": [_tensor_dict(tensor) for tensor in self.tensors],
        }
        return json.dumps(body)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote."""
        body = json.loads(text)
        return cls(
            body["model_id"],
            body["revision"],
            body["architecture"],
            Scheme.model_validate(body["scheme"]),
            tuple(ResolvedRule.from_dict(rule) for rule in body["rules"]),
            tuple(body["files"]),
            tuple(_tensor_from(row) for row in body["tensors"]),
            tuple(body["notes"]),
        )


def _tensor_dict(tensor: PlannedTensor) -> dict[str, Any]:
    row = {name: getattr(tensor, name) for name in PlannedTensor.__slots__}
    return row | {"source": tensor.source._asdict(), "outputs": [output._asdict() for output in tensor.outputs]}


def _tensor_from(row: Mapping[str, Any]) -> PlannedTensor:
    source = row["source"] | {"shape": tuple(row["source"]["shape"])}
    outputs = tuple(Output(**output | {"shape": tuple(output["shape"])}) for output in row["outputs"])
    kinds = {"role": Role(row["role"]), "part": Part(row["part"]), "action": Action(row["action"])}
    return PlannedTensor(**{**row, **kinds, "source": Source(**source), "outputs": outputs})


def _grouped(tensors: Iterable[PlannedTensor]) -> Iterator[list[PlannedTensor]]:
    groups: dict[object, list[PlannedTensor]] = {}
    for tensor in tensors:
        groups.setdefault(_group_key(tensor), []).append(tensor)
    yield from groups.values()


def _group_key(tensor: PlannedTensor) -> object:
    if tensor.action is Action.COPY or tensor.expert is None:
        return tensor.name
    return tensor.part, tensor.layer, tensor.format, tensor.source.dtype, tensor.matrix_shape


def _totals(tensors: Iterable[PlannedTensor]) -> Totals:
    sums: dict[tuple[Part, Role, Action, str | None], list[int]] = {}
    for tensor in tensors:
        row = sums.setdefault((tensor.part, tensor.role, tensor.action, tensor.format), [0] * 5)
        added = (1, len(tensor.outputs), prod(tensor.source.shape), tensor.source.nbytes, tensor.nbytes)
        row[:] = [old + new for old, new in zip(row, added, strict=True)]
    by_role = tuple(RoleTotals(*key, *row) for key, row in sorted(sums.items(), key=lambda item: _order(item[0])))
    tensors_in, tensors_out, _, bytes_in, bytes_out = (sum(column) for column in zip(*sums.values(), strict=True))
    return Totals(tensors_in, tensors_out, bytes_in, bytes_out, by_role)


def _order(key: tuple[Part, Role, Action, str | None]) -> tuple[int, int, str]:
    return list(Part).index(key[0]), list(Role).index(key[1]), key[2]
