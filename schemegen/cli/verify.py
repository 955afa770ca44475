"""`schemegen verify DIR`: is an output what its manifest and its source say?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemegen.cli import figures, options, render
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from schemegen.api import Report


@click.command("verify", cls=Verb)
@click.argument("folder", metavar="DIR", callback=options.given)
@click.option(
    "--against",
    callback=options.given,
    metavar="MODEL",
    help="Compare with the source too: kept tensors byte for byte, codes with their rounding.",
)
@options.revision
@options.jobs
@options.as_json
def command(folder: str, against: str | None, revision: str | None, jobs: int | None, as_json: bool) -> None:
    """Check that the checkpoint in DIR is what it says it is.

    Every byte is read and compared with its digest in the manifest. Exits with 1 and names all findings when anything
    is wrong.
    """
    from schemegen import api

    if revision is not None and against is None:
        raise click.UsageError("--revision is that of the model to compare with: name it with --against MODEL")
    with render.progress() as progress:
        report = api.verify(folder, against, jobs=jobs, revision=revision, progress=progress)
    if as_json:
        render.data({"path": folder, **asdict(report)})
    else:
        render.text(*_lines(folder, report))


def _lines(folder: str, report: Report) -> list[str]:
    read = f"{figures.size(report.bytes_read)} in {figures.duration(report.seconds)}"
    return render.fields(
        [
            ("verified", folder),
            ("checked", report.checks),
            ("read", ", ".join(filter(None, [read, figures.rate(report.bytes_read, report.seconds)]))),
            ("note", report.notes),
        ]
    )
