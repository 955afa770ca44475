"""`schemegen plan SCHEME MODEL`: what would become of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schemegen.cli import figures, options, render
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.planner import Plan

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
@options.as_json
def command(scheme: str, model: str, revision: str | None, policies: tuple[str, ...], as_json: bool) -> None:
    """Show what SCHEME makes of every tensor of MODEL, from headers alone.

    No weight is read, and of a Hub id no more than headers fetched. --json gives every tensor with its rule, outputs
    and file offsets.
    """
    from schemegen import api

    plan = api.plan(scheme, model, policies=policies, revision=revision)
    render.text(plan.to_json()) if as_json else render.text(*_lines(plan))


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
    return [*head, "", *render.table(_HEAD, _rows(plan), _NUMBERS), "", *render.fields(tail)]


def _rows(plan: Plan) -> list[list[str]]:
    return [
        [
            row.part,
            row.role,
            row.format or "kept",
            figures.count(row.tensors_in),
            figures.count(row.tensors_out),
            figures.count(row.parameters),
            figures.size(row.bytes_in),
            figures.size(row.bytes_out),
            f"{8 * row.bytes_out / row.parameters:.2f}" if row.parameters else "",
            ", ".join(rules),
        ]
        for row, rules in zip(plan.totals.by_role, _deciding(plan), strict=True)
    ]


def _deciding(plan: Plan) -> list[list[str]]:
    """For each row of the totals, the labels of the rules that decided its tensors."""
    found: dict[object, dict[str, None]] = {}
    for tensor in plan.tensors:
        found.setdefault((tensor.part, tensor.role, tensor.action, tensor.format), {})[tensor.rule] = None
    return [list(found[row.part, row.role, row.action, row.format]) for row in plan.totals.by_role]
