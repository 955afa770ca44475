"""From scheme and headers to a plan: every tensor's fate, decided before a weight is read."""

from schemegen.planner.build import make_plan
from schemegen.planner.chunks import Chunk, Span, chunks_of
from schemegen.planner.model import Action, Output, Plan, PlannedTensor, Source, Totals, Unit
from schemegen.planner.rules import ResolvedRule, resolve_rules

__all__ = [
    "Action",
    "Chunk",
    "Output",
    "Plan",
    "PlannedTensor",
    "ResolvedRule",
    "Source",
    "Span",
    "Totals",
    "Unit",
    "chunks_of",
    "make_plan",
    "resolve_rules",
]
