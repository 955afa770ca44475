"""What must hold before a byte is written, and what is worth a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache

from schemegen.architectures.base import Architecture, Part, TensorInfo
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import PlanError
from schemegen.formats import Shared, refuses, shared_of
from schemegen.planner.complete import expert_faults, layer_faults, name_faults
from schemegen.planner.decide import Decision, matrices
from schemegen.planner.model import Plan
from schemegen.planner.tensors import PlannedTensor
from schemegen.scheme import Scheme

_SHOWN = 8


def identified(architecture: Architecture, checkpoint: Checkpoint) -> list[TensorInfo]:
    """Every tensor's role and place; PlanError where shapes, layers or experts are not as the config promises."""
    infos = architecture.identify_all(tensor.name for tensor in checkpoint.tensors)
    faults = [
        *_stack_faults(checkpoint, infos),
        *name_faults(architecture, checkpoint),
        *layer_faults(architecture, checkpoint, infos),
        *expert_faults(architecture, checkpoint, infos),
    ]
    _refuse(faults, "the checkpoint does not have the layout that its config.json promises")
    return infos


def check_formats(scheme: Scheme, decisions: Iterable[Decision]) -> None:
    """Every matrix to quantize fits its format."""

    @cache
    def fault(name: str, dtype: str, rows: int, columns: int) -> str | None:
        return refuses(scheme.formats[name], dtype, rows, columns)

    faults = []
    for decision in decisions:
        if decision.format is not None:
            _, rows, columns = matrices(decision.header, decision.info)
            if reason := fault(decision.format, decision.header.dtype, rows, columns):
                faults.append(f"{decision.header.name}: {reason}")
    _refuse(faults, f"scheme {scheme.name} does not fit this model")


def check_outputs(tensors: Iterable[PlannedTensor]) -> None:
    """No two tensors become one name."""
    names = [output.name for tensor in tensors for output in tensor.outputs]
    # Counting 95,000 names takes thrice as long as a set of them.
    counts = Counter(names) if len(set(names)) < len(names) else {}
    doubles = [name for name, count in counts.items() if count > 1]
    _refuse([f"{name} would be written twice" for name in doubles], "the checkpoint holds a tensor in two layouts")


def check_layers(plan: Plan) -> None:
    """Matrices that share a scale, being one layer in engines, have one dtype: in another it would be another."""
    sharing = [t for t in plan.tensors if t.format is not None and shared_of(plan.format_of(t)) is Shared.FUSED]
    if len({tensor.source.dtype for tensor in sharing}) < 2:
        return
    first: dict[str, PlannedTensor] = {}
    faults = []
    for tensor in sharing:
        for module in tensor.modules:
            layer = plan.layer_of(module)
            other = first.setdefault(layer, tensor)
            if other.source.dtype != tensor.source.dtype:
                pair = f"{other.name} ({other.source.dtype}) and {tensor.name} ({tensor.source.dtype})"
                faults.append(f"{layer} is built from {pair}, and its format has one scale for both")
    _refuse(faults, "engines fuse matrices of different dtypes; keep them with a policy")


def notes(architecture: Architecture, checkpoint: Checkpoint, parts: Collection[Part]) -> Iterator[str]:
    """What a user should know of the checkpoint, which has these parts."""
    if Part.MTP not in parts and architecture.depth(checkpoint.config, Part.MTP):
        yield "config.json promises an MTP block that the index does not hold; speculative decoding will not work"


def _refuse(faults: Sequence[str], what: str) -> None:
    if not faults:
        return
    rest = len(faults) - _SHOWN
    shown = [f"  {fault}" for fault in faults[:_SHOWN]] + ([f"  and {rest} more"] if rest > 0 else [])
    raise PlanError("\n".join([f"{what}:", *shown]))


def _stack_faults(checkpoint: Checkpoint, infos: Sequence[TensorInfo]) -> Iterator[str]:
    for header, info in zip(checkpoint.tensors, infos, strict=True):
        if info.experts is not None:
            promised = info.experts.shape(checkpoint.config)
            if header.shape != promised:
                yield f"{header.name}: shape {list(header.shape)}, the config promises {list(promised)}"
