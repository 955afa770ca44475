"""`schemegen inspect MODEL`: what a checkpoint is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemegen.cli import figures, options, render
from schemegen.cli.spelling import spelled
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.api import Inspection
    from schemegen.inspection import NamedTensor

_HEAD = ("part", "role", "dtype", "tensors", "parameters", "size", "layout")
_NAMES_HEAD = ("name", "tensors", "dtype", "shape", "part", "role")
_NUMBERS = ("tensors", "parameters", "size")


@click.command("inspect", cls=Verb)
@options.model
@options.revision
@click.option("--names", is_flag=True, help="Show the tensors by name instead, known to an architecture or not.")
@options.as_json
def command(model: str, revision: str | None, names: bool, as_json: bool) -> None:
    """Show what MODEL is made of.

    Its tensors by part and role, how experts are stored, and the files beside them, from headers alone. --names is for
    a model family that schemegen does not know yet.
    """
    from schemegen import api

    if names:
        _show_names(api.tensor_names(model, revision=revision), as_json)
        return
    found = api.inspect(model, revision=revision)
    render.data(asdict(found)) if as_json else render.text(*_lines(found))


def _lines(found: Inspection) -> list[str]:
    # What is quantized holds several weights in one item, or scales that are none.
    parameters = [] if found.quantization else figures.count(found.parameters)
    head: list[tuple[str, str | Sequence[str]]] = [
        ("model", found.model_id if found.revision is None else f"{found.model_id} at {found.revision}"),
        ("architecture", found.architecture),
        ("quantized", found.quantization or "no"),
        ("tensors", f"{figures.count(found.tensors)} in {figures.plural(found.shards, 'shard')}"),
        ("parameters", parameters),
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


def _show_names(tensors: Sequence[NamedTensor], as_json: bool) -> None:
    if as_json:
        render.data([asdict(tensor) for tensor in tensors])
    else:
        render.text(*render.table(_NAMES_HEAD, _name_rows(tensors), ("tensors",)))


def _name_rows(tensors: Sequence[NamedTensor]) -> list[list[str]]:
    """A row for all tensors that differ by numbers or a word of their names alone."""
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for tensor in tensors:
        shape, part, role = str(list(tensor.shape)), tensor.part or "", tensor.role or "unknown"
        alike.setdefault((tensor.dtype, shape, part, role), []).append(tensor.name)
    return [
        [pattern, figures.count(len(names)), *kind]
        for kind, members in alike.items()
        for pattern, names in spelled(members).items()
    ]
