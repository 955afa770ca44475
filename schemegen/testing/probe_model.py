"""A checkpoint of probes: for each format and dtype a layer of noise, one row, awkward rows and a stack of experts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemegen.architectures.base import Architecture, ExpertLayout, Role, TensorRule
from schemegen.architectures.config import config_int
from schemegen.catalog import load_catalog
from schemegen.checkpoint import open_checkpoint
from schemegen.planner import Plan, make_plan, resolve_rules
from schemegen.scheme import Format, Scheme
from schemegen.testing.probe_weights import awkward, noise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from schemegen.checkpoint.model import Checkpoint

    Bits = NDArray[np.unsignedinteger[Any]]

#: Odd, and more than a block of 128.
TALL: Final = 131
_WIDTH: Final = 256
#: One row is as many times as wide as all else: what computes by blocks meets the end of one.
WIDER: Final = 5
_EXPERTS, _EXPERT_ROWS = 3, 8
_LAYER: Final = r"model\.layers\.(?P<layer>\d+)\.mlp\."
NOISE, ONE_ROW, AWKWARD_ROWS, STACK = "gate_proj.weight", "up_proj.weight", "down_proj.weight", "experts.down_proj"

PROBE: Final = Architecture(
    name="probe",
    summary="Layers of probes",
    model_types=("probe",),
    rules=(
        TensorRule(_LAYER + r"(?P<projection>gate|up|down)_proj\.weight", Role.MLP),
        TensorRule(
            _LAYER + r"experts\.down_proj",
            Role.ROUTED_EXPERT,
            experts=ExpertLayout(
                ("down",),
                rows=lambda config: _EXPERT_ROWS,
                columns=lambda config: config_int(config, "columns"),
                experts=lambda config: _EXPERTS,
            ),
        ),
    ),
    depth=lambda config, part: config_int(config, "layers"),
    experts=lambda config: _EXPERTS,
    part_ignores={},
)


class Use(NamedTuple):
    """A format in use on weights of a dtype: a layer of the probe model."""

    format: Format
    dtype: str


@dataclass(frozen=True, slots=True)
class ProbeModel:
    """The plan of a probe checkpoint, and all its weights by tensor name."""

    plan: Plan
    checkpoint: Checkpoint
    weights: Mapping[str, Bits]


def width_of(formats: Sequence[Format]) -> int:
    """Columns that every format's groups divide."""
    return lcm(_WIDTH, *(format.weights.group_size or 1 for format in formats))


def write_probe_model(folder: Path, uses: Sequence[Use], method: str | Mapping[str, Any]) -> ProbeModel:
    """Write a checkpoint with a layer for each use, and plan it."""
    columns = width_of([use.format for use in uses])
    weights = {name: bits for layer, use in enumerate(uses) for name, bits in _layer(layer, use.dtype, columns)}
    dtypes = {name: uses[int(name.split(".")[2])].dtype for name in weights}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "probe", "layers": len(uses), "columns": columns}))
    (folder / "model.safetensors").write_bytes(_shard(weights, dtypes))
    checkpoint = open_checkpoint(str(folder))
    scheme = _scheme(uses, method)
    rules = resolve_rules(scheme, load_catalog().policy)
    return ProbeModel(make_plan(checkpoint, PROBE, scheme, rules), checkpoint, weights)


def _layer(number: int, dtype: str, columns: int) -> Iterator[tuple[str, Bits]]:
    module = f"model.layers.{number}.mlp."
    yield module + NOISE, noise(dtype, (TALL, columns), 1)
    yield module + ONE_ROW, noise(dtype, (1, WIDER * columns), 2)
    yield module + AWKWARD_ROWS, awkward(dtype, columns)
    stack = noise(dtype, (_EXPERTS, _EXPERT_ROWS, columns), 3)
    # An expert that never learned anything.
    stack[1] = 0
    yield module + STACK, stack


def _shard(weights: Mapping[str, Bits], dtypes: Mapping[str, str]) -> bytes:
    entries, end = {}, 0
    for name, bits in weights.items():
        begin, end = end, end + bits.nbytes
        entries[name] = {"dtype": dtypes[name], "shape": bits.shape, "data_offsets": [begin, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    return b"".join([len(header).to_bytes(8, "little"), header, *(bits.tobytes() for bits in weights.values())])


def _scheme(uses: Sequence[Use], method: str | Mapping[str, Any]) -> Scheme:
    """A scheme that gives each layer its use's format."""
    formats: list[Format] = []
    rules = []
    for layer, use in enumerate(uses):
        if use.format not in formats:
            formats.append(use.format)
        rules.append({"layers": str(layer), "use": f"probe-{formats.index(use.format)}"})
    return Scheme.model_validate(
        {
            "schema_version": 1,
            "name": "conformance",
            "summary": "formats that a backend takes, on probes",
            "formats": {f"probe-{number}": format for number, format in enumerate(formats)},
            "policy": rules,
            "method": method,
        }
    )
