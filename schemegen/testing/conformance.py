"""The conformance test of backends: what the contract in `schemegen.backends.base` asks for, tried on probes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from schemegen.backends.base import Backend
from schemegen.backends.guard import GuardedBackend
from schemegen.catalog import own_backend
from schemegen.digests import file_digest
from schemegen.errors import SchemegenError, VerificationError
from schemegen.formats.words import in_short
from schemegen.planner import Plan
from schemegen.scheme import Format
from schemegen.testing.answer_checks import formats_taken, uses_taken
from schemegen.testing.batch_checks import check_batches
from schemegen.testing.chunk_checks import check_buffers, check_cuts, check_nonfinite, check_threads
from schemegen.testing.findings import Findings, told
from schemegen.testing.probe_formats import is_checkable, probe_formats
from schemegen.testing.probe_model import Use, width_of, write_probe_model
from schemegen.testing.run_checks import check_runs
from schemegen.testing.trial import prepared
from schemegen.testing.value_checks import check_values

Make = Callable[[], Backend]
_ABOUT: Final = "prepare"


def check_backend(
    backend: Backend | Make, *, formats: Iterable[Format] = (), options: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Hold a backend to its contract in every format that it takes, of some twenty and of `formats`; their words.

    Give a class or function that makes one, or an instance that has not run, which is copied for each run. `options`
    are those of its method. It need not be registered. Codes have to be the nearest under the stored scales; how scales
    are chosen is the backend's, while ordinary weights lose at most four times plain rounding's squared error.
    Takes seconds once this machine has compiled the kernels to compare with, at first up to a minute or two, and
    150 MB of temporary space.
    VerificationError with every finding: of its answers; without one, of what it writes into buffers; without one, of
    whole runs.
    """
    make = _maker(backend)
    try:
        guarded = own_backend(make())
    except SchemegenError as error:
        raise VerificationError([told(error)]) from None
    findings = Findings(guarded.name)
    own = list(filter(is_checkable, formats))
    asked = [*own, *(format for format in probe_formats() if format not in own)]
    taken = formats_taken(guarded, asked, findings)
    uses = uses_taken(guarded, taken, width_of(taken), findings)
    findings.raise_all()
    method = {"name": guarded.method, **options} if options else guarded.method
    with tempfile.TemporaryDirectory(prefix="schemegen-") as folder:
        _check_chunks(own_backend(make()), uses, method, Path(folder), findings)
        findings.raise_all()
        check_runs(make, taken, method, Path(folder), findings)
        findings.raise_all()
    return tuple(map(in_short, taken))


def _maker(backend: Backend | Make) -> Make:
    return backend if callable(backend) else lambda: deepcopy(backend)


def _check_chunks(
    backend: GuardedBackend, uses: list[Use], method: str | Mapping[str, Any], folder: Path, findings: Findings
) -> None:
    model = write_probe_model(folder / "probes", uses, method)
    before = _contents(folder / "probes")
    scratch = folder / "scratch"
    scratch.mkdir()
    with findings.taking(_ABOUT), prepared(backend, model, scratch) as trial:
        stored = check_buffers(trial, findings)
        check_values(trial, stored, findings)
        check_cuts(trial, stored, findings)
        check_threads(trial, stored, findings)
        check_batches(trial, stored, findings)
        check_nonfinite(trial, findings)
        _check_words(trial.backend, model.plan)
    if _contents(folder / "probes") != before:
        findings.add(_ABOUT, "the source's files are not what they were; a backend reads and never writes there")


def _contents(folder: Path) -> dict[Path, str]:
    """Everything in a folder, with the digests of files."""
    return {path: file_digest(path) if path.is_file() else "" for path in folder.rglob("*")}


def _check_words(backend: GuardedBackend, plan: Plan) -> None:
    """What goes on record; PluginError for another type, or for a distribution that is not installed."""
    backend.versions(plan)
    backend.same_bits_as(plan)
    backend.report()
