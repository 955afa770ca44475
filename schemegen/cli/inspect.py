"""`schemegen inspect MODEL`: what a checkpoint is made of."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemegen.cli import figures, options, render
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.api import Inspection

_HEAD = ("part", "role", "dtype", "tensors", "parameters", "size", "layout")
_NUMBERS = ("tensors", "parameters", "size")


@click.command("inspect", cls=Verb)
@options.model
@options.revision
@options.as_json
def command(model: str, revision: str | None, as_json: bool) -> None:
    """Show what MODEL is made of.

    Its tensors by part and role, how experts are stored, and the files beside them, from headers alone.
    """
    from schemegen import api

    found = api.inspect(model, revision=revision)
    render.data(asdict(found)) if as_json else render.text(*_lines(found))


def _lines(found: Inspection) -> list[str]:
    head = [
        ("model", found.model_id if found.revision is None else f"{found.model_id} at {found.revision}"),
        ("architecture", found.architecture),
        ("quantized", found.quantization or "no"),
        ("tensors", f"{figures.count(found.tensors)} in {figures.plural(found.shards, 'shard')}"),
        ("parameters", figures.count(found.parameters)),
        ("size", figures.size(found.nbytes)),
    ]
    tail = [("side files", found.side_files), ("not indexed", found.unindexed), ("note", found.notes)]
    table = ["", *render.table(_HEAD, _rows(found), _NUMBERS), ""] if found.rows else [""]
    return [*render.fields(head), *table, *render.fields(tail)]


def _rows(found: Inspection) -> list[list[str]]:
    return [
        [
            row.part,
            row.role,
            row.dtype,
            figures.count(row.tensors),
            figures.count(row.parameters),
            figures.size(row.nbytes),
            row.layout,
        ]
        for row in found.rows
    ]
