"""`schemegen apply SCHEME MODEL`: make the quantized checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

import click

from schemegen.cli import figures, options, render
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.api import Result


@click.command("apply", cls=Verb)
@options.scheme
@options.model
@click.option(
    "-o", "--output", callback=options.given, metavar="DIR", help="The folder to make.  [default: ./<model>-<scheme>]"
)
@options.revision
@options.policies
@click.option(
    "--backend",
    callback=options.given,
    default="native-rtn",
    show_default=True,
    metavar="NAME",
    help="What computes the quantized weights.",
)
@click.option(
    "--device",
    "devices",
    callback=options.given,
    multiple=True,
    metavar="DEV",
    help="Where it computes: cpu, cuda:N (repeat it for several), or auto, which takes a GPU.  [default: auto]",
)
@options.jobs
@click.option("--overwrite", is_flag=True, help="Replace the model that stands in DIR, once the new one is finished.")
@click.option("--restart", is_flag=True, help="Discard what an interrupted run left, rather than resume it.")
@click.option(
    "--base-model",
    callback=options.given,
    metavar="ORG/NAME",
    help="The Hub id the model card names as base.  [default: MODEL's, where it is known]",
)
@click.option(
    "--unindexed",
    type=click.Choice(["refuse", "drop"]),
    default="refuse",
    show_default=True,
    help="What to do when a file outside the index holds the MTP block.",
)
@options.as_json
def command(
    scheme: str,
    model: str,
    output: str | None,
    revision: str | None,
    policies: tuple[str, ...],
    backend: str,
    devices: tuple[str, ...],
    jobs: int | None,
    overwrite: bool,
    restart: bool,
    base_model: str | None,
    unindexed: Literal["refuse", "drop"],
    as_json: bool,
) -> None:
    """Quantize MODEL by SCHEME into a new folder.

    Work happens in DIR.partial; DIR appears by one rename when all is done and checked. The same command again resumes
    an interrupted run, and says so when DIR already holds this very result. A Hub id is downloaded before, into the
    Hub client's cache, once all is found fit to run.
    """
    from schemegen import api

    resume = f"run the same command again{', without --restart,' if restart else ''} to resume"
    with render.progress() as progress, _noting(KeyboardInterrupt, resume):
        result = api.apply(
            scheme,
            model,
            output,
            policies=policies,
            backend=backend,
            device=devices or "auto",
            jobs=jobs,
            revision=revision,
            base_model=base_model,
            overwrite=overwrite,
            restart=restart,
            unindexed=unindexed,
            progress=progress,
        )
    with _noting(OSError, f"{result.path} is finished, only this report of it is lost"):
        if as_json:
            render.data(_data(result))
        else:
            render.text(*_lines(result))


@contextmanager
def _noting(kind: type[BaseException], note: str) -> Iterator[None]:
    """Add to an error of this kind what whoever sees it should know."""
    try:
        yield
    except kind as error:
        error.add_note(note)
        raise


def _lines(result: Result) -> list[str]:
    if result.status == "unchanged":
        return [f"{result.path} already holds this result; nothing to do (schemegen verify reads every byte)"]
    totals, made = result.plan.totals, result.bytes_in - result.resumed_bytes
    found = [f"{figures.size(result.resumed_bytes)} were done by an earlier run"] if result.resumed_bytes else []
    return render.fields(
        [
            ("written", str(result.path)),
            ("scheme", f"{result.plan.scheme.name} on {result.plan.model_id}"),
            ("tensors", f"{figures.count(totals.tensors_in)} in, {figures.count(totals.tensors_out)} out"),
            ("size", figures.change(result.bytes_in, result.bytes_out)),
            ("time", ", ".join(filter(None, [figures.duration(result.seconds), figures.rate(made, result.seconds)]))),
            ("resumed", found),
            ("checked", result.checks),
            ("left out", result.unindexed),
            ("note", result.notes),
            ("serve", result.serve),
        ]
    )


def _data(result: Result) -> dict[str, Any]:
    """The result without the plan's tensors, which `plan --json` has."""
    told = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "plan"}
    plan = result.plan
    totals = plan.totals._asdict() | {"by_role": [row._asdict() for row in plan.totals.by_role]}
    return told | {"model_id": plan.model_id, "scheme": plan.scheme.name, "totals": totals}
