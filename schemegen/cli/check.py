"""`schemegen check FILE...`: whether scheme and policy files are right, and the schemas that editors check them by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schemegen.cli import options, render
from schemegen.cli.figures import plural
from schemegen.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemegen.checking import Checked
    from schemegen.errors import SchemeFault
    from schemegen.scheme import Scheme


@click.command("check", cls=Verb)
@click.argument("files", nargs=-1, callback=options.given, metavar="FILE...")
@click.option("--schema", type=click.Choice(["scheme", "policy"]), help="Print the JSON schema of such files instead.")
@options.as_json
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], schema: str | None, as_json: bool) -> None:
    """Check scheme and policy files, and tell all their faults at once.

    FILE is a YAML file, or a folder whose YAML files are meant, without those of the folders in it. A file with formats
    is a scheme, one with rules a policy, and schemes may name policies among the files. Checked is all that can be told
    without a model: fields, values and names, formats that nothing stores, computes or serves, rules that never decide.
    A good file gives a line, a fault one of the form FILE:LINE: FIELD: MESSAGE, and with any the exit code is 1. What
    only a package that is not installed here would compute is no fault, but a note.
    """
    if bool(files) == (schema is not None):
        ctx.fail("give files to check, or --schema and no file")
    if schema is not None:
        _print_schema(schema)
        return
    from schemegen.checking import check_files

    checked = check_files(files)
    if as_json:
        render.data({"files": [_as_json(one) for one in checked]})
    else:
        render.text(*(line for one in checked for line in _lines(one)))
    for remark in (remark for one in checked for remark in one.remarks):
        render.note(f"note: {remark}")
    faults = sum(len(one.faults) for one in checked)
    if faults:
        faulty = sum(bool(one.faults) for one in checked)
        render.note(f"error: {plural(faults, 'fault')} in {faulty} of {plural(len(checked), 'file')}")
        ctx.exit(1)


def _print_schema(kind: str) -> None:
    import json

    from schemegen.schemas import json_schema

    render.text(json.dumps(json_schema(kind), indent=2))


def _lines(checked: Checked) -> list[str]:
    if checked.faults or checked.found is None:
        return [str(fault) for fault in checked.faults]
    return [f"{checked.path}: {checked.kind} {checked.name}: {_in_short(checked)}"]


def _in_short(checked: Checked) -> str:
    from schemegen.policy import Policy

    found = checked.found
    if isinstance(found, Policy):
        return plural(len(found.rules), "rule")
    return "" if found is None else _scheme_in_short(found)


def _scheme_in_short(scheme: Scheme) -> str:
    from schemegen.formats.words import in_short

    return "; ".join(f"{name} {in_short(format)}" for name, format in scheme.formats.items())


def _as_json(checked: Checked) -> dict[str, Any]:
    return {
        "file": str(checked.path),
        "kind": checked.kind,
        "name": checked.name,
        "faults": _faults_as_json(checked.faults),
        "remarks": _faults_as_json(checked.remarks),
    }


def _faults_as_json(faults: Iterable[SchemeFault]) -> list[dict[str, Any]]:
    return [{"line": fault.line, "field": fault.field, "message": fault.message} for fault in faults]
