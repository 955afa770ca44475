"""Whether scheme and policy files are right: all that can be told without a model, all faults of all files at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from schemegen.catalog import load_catalog
from schemegen.checking.known import Known
from schemegen.checking.reading import Checked, read, read_all
from schemegen.checking.rules import role_faults
from schemegen.checking.schemes import scheme_faults
from schemegen.documents import Place
from schemegen.errors import SchemeFileError, shortened
from schemegen.policy import Policy
from schemegen.scheme import Scheme

__all__ = ["Checked", "check", "check_files"]


def check(path: str | Path) -> Scheme | Policy:
    """The scheme or policy in a YAML file, if it would do with some model; SchemeFileError lists all its faults."""
    checked = _checked(read(Path(path)), Known(load_catalog(), ()))
    if checked.found is None or checked.faults:
        raise SchemeFileError(checked.faults)
    return checked.found


def check_files(paths: Iterable[str | Path]) -> tuple[Checked, ...]:
    """Each file as `check` sees it, where policies among them are known by name; of a folder its YAML files."""
    files = list({one.path: one for path in paths for one in read_all(Path(path))}.values())
    known = Known(load_catalog(), files)
    twins = _twins(files)
    return tuple(_checked(one, known).with_faults(twins.get(one.path, ())) for one in files)


def _checked(one: Checked, known: Known) -> Checked:
    if isinstance(one.found, Policy):
        return one.with_faults(role_faults("rules", dict(enumerate(one.found.rules))))
    if isinstance(one.found, Scheme):
        faults, remarks = scheme_faults(one, one.found, known)
        return one.with_faults(faults, remarks)
    return one


def _twins(files: Sequence[Checked]) -> dict[Path, list[tuple[Place, str]]]:
    """Files that give one name to two things of a kind: whoever registers both cannot."""
    first: dict[tuple[str | None, str], Path] = {}
    faults: dict[Path, list[tuple[Place, str]]] = {}
    for one in files:
        if one.name is not None:
            other = first.setdefault((one.kind, one.name), one.path)
            if other != one.path:
                faults[one.path] = [(("name",), f"{one.kind} {shortened(one.name)} is in {other} too; rename one")]
    return faults
