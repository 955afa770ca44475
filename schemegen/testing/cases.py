"""Plan cases: what becomes of a tensor of each kind, written by hand in YAML and held against the plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from schemegen.api import plan
from schemegen.documents import YAML_SUFFIXES, yaml_files
from schemegen.errors import VerificationError, shortened
from schemegen.planner import Plan, PlannedTensor
from schemegen.scheme import Scheme
from schemegen.testing.case_file import Case, load_case

KEEP: Final = "keep"


def cases(folder: str | Path) -> list[Path]:
    """The case files of a folder, sorted, to run a test over; SchemeFileError where there is none."""
    return yaml_files(Path(folder))


def check_case(path: str | Path, scheme: str | Path | Scheme | None = None) -> None:
    """Plan the case's scheme on its model and hold every tensor it names to the role and format that it says.

    Of a kind (part and role) that the model has and the case does not name, it has to say `rest: keep`. `scheme` is
    planned instead of the one that the case names, and has to be called so. VerificationError with every finding;
    SchemeFileError for the file itself.
    """
    file = Path(path)
    case = load_case(file)
    policies = [_beside(file, policy) for policy in case.policies]
    made = plan(_beside(file, case.scheme) if scheme is None else scheme, _beside(file, case.model), policies=policies)
    findings = [*_head_faults(file, case, made), *_tensor_faults(case, made), *_kind_faults(case, made)]
    if findings:
        raise VerificationError([f"{file}: {finding}" for finding in findings])


def _beside(file: Path, given: str) -> str | Path:
    """A file or folder that a case names by its place beside the case; all else is a name or Hub id."""
    is_path = given.endswith(YAML_SUFFIXES) or given.startswith(("./", "../"))
    # Absolute, for `./` gets lost where the case lies here, and what is left may be a Hub id.
    return (file.parent / given).absolute() if is_path else given


def _head_faults(file: Path, case: Case, made: Plan) -> Iterator[str]:
    named = case.scheme
    if not isinstance(_beside(file, named), Path) and named != made.scheme.name:
        yield f"the case is one of scheme {shortened(named)}, and was given {made.scheme.name}"
    if case.architecture != made.architecture:
        yield f"architecture: is {made.architecture}, the case says {shortened(case.architecture)}"


def _tensor_faults(case: Case, made: Plan) -> Iterator[str]:
    found = {tensor.name: tensor for tensor in made.tensors}
    for name, (role, format) in case.tensors.items():
        if name not in found:
            yield _unknown(name, found)
        elif (got := _fate(found[name])) != (role, format):
            yield f"{name}: is {_told(*got)}, the case says {_told(role, format)}; rule {found[name].rule} decided"


def _unknown(name: str, known: Mapping[str, PlannedTensor]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"{shortened(name)}: the model has no such tensor; " + (
        f"did you mean {near[0]}?" if near else "schemegen plan --json lists all"
    )


def _kind_faults(case: Case, made: Plan) -> Iterator[str]:
    """Kinds that no tensor of the case has: with a rest, those it is wrong about; else all, each with one to name."""
    told = {(tensor.part, tensor.role) for tensor in made.tensors if tensor.name in case.tensors}
    kinds: dict[tuple[str, str], PlannedTensor] = {}
    for tensor in made.tensors:
        if (tensor.part, tensor.role) not in told and (case.rest is None or tensor.format is not None):
            kinds.setdefault((tensor.part, tensor.role), tensor)
    for (part, role), tensor in kinds.items():
        line = f"{tensor.name}: {_told(*_fate(tensor))}"
        if case.rest is None:
            yield f"part {part}, role {role}: no tensor is named; add rest: keep, or {line}"
        else:
            yield f"part {part}, role {role}: rest: {case.rest} is not true of it; add {line}"


def _fate(tensor: PlannedTensor) -> tuple[str, str]:
    return str(tensor.role), tensor.format or KEEP


def _told(role: str, format: str) -> str:
    return f"[{role}, {format}]"
