"""From scheme and headers to a plan: every tensor's fate, decided before a weight is read."""

from schemegen.planner.build import make_plan
from schemegen.planner.chunks import Chunk, Span, chunks_of, plan_chunks
from schemegen.planner.model import Plan
from schemegen.planner.rules import ResolvedRule, resolve_rules
from schemegen.planner.tensors import Action, Output, PlannedTensor, Source, Unit
from schemegen.planner.totals import RoleTotals, Totals

__all__ = [
    "Action",
    "Chunk",
    "Output",
    "Plan",
    "PlannedTensor",
    "ResolvedRule",
    "RoleTotals",
    "Source",
    "Span",
    "Totals",
    "Unit",
    "chunks_of",
    "make_plan",
    "plan_chunks",
    "resolve_rules",
]
