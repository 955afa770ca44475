"""`schemegen plan SCHEME MODEL`: what would become of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schemegen.cli import figures, options, render
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.planner import Plan, PlannedTensor, RoleTotals, Totals

_HEAD = (
    "part",
    "role",
    "becomes",
    "tensors",
    "stored",
    "parameters",
    "before",
    "after",
    "bits/weight",
    "decided by",
)
_NUMBERS = ("tensors", "stored", "parameters", "before", "after", "bits/weight")


@click.command("plan", cls=Verb)
@options.scheme
@options.model
@options.revision
@options.policies
@options.explain
@options.as_json
def command(
    scheme: str, model: str, revision: str | None, policies: tuple[str, ...], explain: str | None, as_json: bool
) -> None:
    """Show what SCHEME makes of every tensor of MODEL, from headers alone.

    No weight is read, and of a Hub id no more than headers fetched. --json gives every tensor with its rule, outputs
    and file offsets; with --explain those that GLOB matches, each with the reason. In a GLOB * stands for anything,
    {0-2,7} for numbers, {gate,up} for words; it is held against the names of tensors and of what would be stored of
    them.
    """
    from schemegen import api

    plan = api.plan(scheme, model, policies=policies, revision=revision)
    if explain is not None:
        _explain(plan, explain, as_json)
    else:
        render.text(plan.to_json()) if as_json else render.text(*_lines(plan))


def _explain(plan: Plan, glob: str, as_json: bool) -> None:
    from schemegen.cli import explained
    from schemegen.planner.explanation import explain

    told = explain(plan, glob)
    if as_json:
        render.data({"explain": glob, "tensors": [explanation.to_dict() for explanation in told]})
    else:
        render.text(*explained.lines(told, plan.files))


def _lines(plan: Plan) -> list[str]:
    from schemegen.formats import storage_of
    from schemegen.formats.words import in_short

    totals, formats = plan.totals, plan.scheme.formats
    used = [name for name in formats if name in plan.formats_used]
    head = render.fields(
        [
            ("model", plan.model_id if plan.revision is None else f"{plan.model_id} at {plan.revision}"),
            ("architecture", plan.architecture),
            ("scheme", f"{plan.scheme.name}: {plan.scheme.summary}"),
            ("formats", [f"{name}: {in_short(formats[name])}, {storage_of(formats[name])}" for name in used]),
            ("served by", [f"{engine}: {told}" for engine, told in plan.scheme.served_by.items()]),
        ]
    )
    tail = [
        ("tensors", f"{figures.count(totals.tensors_in)} in, {figures.count(totals.tensors_out)} out"),
        ("size", figures.change(totals.bytes_in, totals.bytes_out)),
        ("note", plan.notes),
    ]
    return [*head, "", *render.table(_HEAD, _rows(plan), _NUMBERS, _total(totals)), "", *render.fields(tail)]


def _rows(plan: Plan) -> list[list[str]]:
    return [
        [row.part, row.role, row.format or "kept", *_sums(row), ", ".join(rules)]
        for row, rules in zip(plan.totals.by_role, _deciding(plan), strict=True)
    ]


def _total(totals: Totals) -> list[str]:
    return ["total", "", "", *_sums(totals), ""]


def _sums(row: RoleTotals | Totals) -> list[str]:
    counts = (row.tensors_in, row.tensors_out, row.parameters)
    sizes = (row.bytes_in, row.bytes_out)
    return [*map(figures.count, counts), *map(figures.size, sizes), figures.bits(row.bits_per_weight)]


def _deciding(plan: Plan) -> list[list[str]]:
    """For each row of the totals, the labels of the rules that decided its tensors."""
    found: dict[object, dict[str, None]] = {}
    for tensor in plan.tensors:
        found.setdefault((tensor.part, tensor.role, tensor.action, tensor.format), {})[_decided_by(tensor)] = None
    return [list(found[row.part, row.role, row.action, row.format]) for row in plan.totals.by_role]


def _decided_by(tensor: PlannedTensor) -> str:
    """The rule's label, or that none may reach the tensor without naming its role."""
    from schemegen.planner.decide import KEPT_BY_DEFAULT
    from schemegen.rule import is_protected_place

    is_kept = tensor.rule == KEPT_BY_DEFAULT and is_protected_place(tensor.role, tensor.part)
    return "protected" if is_kept else tensor.rule
