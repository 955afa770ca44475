"""make_plan: from scheme, rules, architecture and headers to a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from schemegen.architectures.base import Architecture
from schemegen.checkpoint.model import Checkpoint
from schemegen.formats import Piece, pieces
from schemegen.planner import checks
from schemegen.planner.decide import Decision, decide, depths_of, matrices
from schemegen.planner.layout import Block, lay_out
from schemegen.planner.model import Plan
from schemegen.planner.outcome import Outcome
from schemegen.planner.rules import ResolvedRule
from schemegen.planner.tensors import Action, Output, PlannedTensor, Source
from schemegen.scheme import Scheme


def make_plan(
    checkpoint: Checkpoint,
    architecture: Architecture,
    scheme: Scheme,
    rules: Sequence[ResolvedRule],
    *,
    again: bool = False,
) -> Plan:
    """Plan every tensor from headers alone. PlanError lists every shape, dtype and layer that does not fit.

    `again` is for a finished output: whether its rules reach what they name is no longer asked.
    """
    infos = checks.identified(architecture, checkpoint)
    depths = depths_of(architecture, checkpoint, infos)
    outcome = Outcome(scheme, rules, decide(checkpoint, infos, depths, rules), depths)
    checks.check_formats(scheme, outcome.decisions)
    outcome.check_something()
    if not again:
        outcome.check_aim()
    tensors = tuple(_planned(scheme, outcome.decisions))
    checks.check_outputs(tensors)
    notes = (*outcome.notes(), *checks.notes(architecture, checkpoint, depths.keys()))
    files = tuple(shard.name for shard in checkpoint.shards)
    plan = Plan(
        checkpoint.model_id,
        checkpoint.revision,
        architecture.name,
        scheme,
        tuple(rules),
        files,
        tensors,
        notes,
        architecture.fusions,
    )
    checks.check_layers(plan)
    return plan


def _planned(scheme: Scheme, decisions: Sequence[Decision]) -> Iterable[PlannedTensor]:
    @cache
    def stored(name: str, dtype: str, rows: int, columns: int) -> tuple[Piece, ...]:
        return pieces(scheme.formats[name], dtype, rows, columns)

    blocks = [_blocks(stored, decision) for decision in decisions]
    offsets = lay_out([(decision.header.shard, rows) for decision, rows in zip(decisions, blocks, strict=True)])
    for decision, rows, starts in zip(decisions, blocks, offsets, strict=True):
        yield _tensor(decision, _outputs(decision, rows, starts))


def _blocks(stored: Callable[[str, str, int, int], tuple[Piece, ...]], decision: Decision) -> list[Block]:
    """What a tensor stores: a block per piece, each the same piece of every matrix."""
    header = decision.header
    if decision.format is None:
        return [Block(Piece("", header.dtype, header.shape), 1, header.nbytes)]
    count, rows, columns = matrices(decision.header, decision.info)
    return [Block(piece, count, piece.nbytes) for piece in stored(decision.format, header.dtype, rows, columns)]


def _outputs(decision: Decision, blocks: Sequence[Block], starts: Sequence[int]) -> tuple[Output, ...]:
    header = decision.header
    if decision.format is None:
        return (Output(header.name, header.dtype, header.shape, header.shard, starts[0], header.nbytes),)
    return tuple(
        Output(
            f"{module}.{block.piece.suffix}",
            block.piece.dtype,
            block.piece.shape,
            header.shard,
            start + matrix * block.nbytes,
            block.nbytes,
        )
        for matrix, module in enumerate(_modules(decision))
        for block, start in zip(blocks, starts, strict=True)
    )


def _modules(decision: Decision) -> list[str]:
    layout = decision.info.experts
    if layout is None:
        return [decision.info.module]
    return [name for _, _, name in layout.module_names(decision.info.module, decision.header.shape[0])]


def _tensor(decision: Decision, outputs: tuple[Output, ...]) -> PlannedTensor:
    header, info = decision.header, decision.info
    quantized = decision.format is not None
    return PlannedTensor(
        header.name,
        info.role,
        info.part,
        info.layer,
        info.expert,
        info.projection,
        Action.QUANTIZE if quantized else Action.COPY,
        decision.rule,
        decision.format,
        Source(header.shard, header.offset, header.dtype, header.shape, header.nbytes),
        matrices(header, info)[0] if quantized else 1,
        outputs,
        () if info.experts is None else info.experts.projections,
    )
