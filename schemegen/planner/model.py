"""The plan: a frozen contract between planner, backends, writer, verifier and card. JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from schemegen.planner.rules import ResolvedRule
from schemegen.planner.tensors import Action, Output, PlannedTensor, Unit
from schemegen.planner.totals import Totals, totals_of
from schemegen.scheme import Format, Scheme


@dataclass(frozen=True)
class Plan:
    """Every tensor of a model under a scheme, with what it becomes and where it is written.

    `rules` are the resolved policy in order; `files` are the output shards in source order. `fusions` are the layers
    that engines build from several matrices, by name: last words of module names.
    """

    model_id: str
    revision: str | None
    architecture: str
    scheme: Scheme
    rules: tuple[ResolvedRule, ...]
    files: tuple[str, ...]
    tensors: tuple[PlannedTensor, ...]
    notes: tuple[str, ...] = field(default=())
    fusions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The tensors grouped into what is computed together, in plan order."""
        return tuple(Unit(index, tuple(group)) for index, group in enumerate(_grouped(self.tensors)))

    @cached_property
    def totals(self) -> Totals:
        """Counts and bytes, in and out, whole and by part and role."""
        return totals_of(self.tensors)

    @cached_property
    def formats_used(self) -> Mapping[str, Format]:
        """The scheme's formats that tensors have, by name in plan order."""
        names = dict.fromkeys(tensor.format for tensor in self.tensors if tensor.format is not None)
        return {name: self.scheme.formats[name] for name in names}

    def format_of(self, tensor: PlannedTensor) -> Format:
        """The format of a quantized tensor."""
        assert tensor.format is not None
        return self.scheme.formats[tensor.format]

    def layer_of(self, module: str) -> str:
        """The layer that engines build a module into: the fused one, or itself."""
        parent, _, last = module.rpartition(".")
        fused = next((name for name, members in self.fusions.items() if last in members), None)
        return module if fused is None else f"{parent}.{fused}"

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
            "fusions": dict(self.fusions),
            "tensors": [tensor.to_dict() for tensor in self.tensors],
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
            tuple(map(PlannedTensor.from_dict, body["tensors"])),
            tuple(body["notes"]),
            {name: tuple(members) for name, members in body["fusions"].items()},
        )


def _grouped(tensors: Iterable[PlannedTensor]) -> Iterator[list[PlannedTensor]]:
    groups: dict[object, list[PlannedTensor]] = {}
    for tensor in tensors:
        groups.setdefault(_group_key(tensor), []).append(tensor)
    yield from groups.values()


def _group_key(tensor: PlannedTensor) -> object:
    if tensor.action is Action.COPY or tensor.expert is None:
        return tensor.name
    return tensor.part, tensor.layer, tensor.format, tensor.source.dtype, tensor.matrix_shape
