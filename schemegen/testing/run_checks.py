"""Whole runs of a backend on the sample: verified against the source, and the same bytes after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

from schemegen.api import apply, plan, verify
from schemegen.backends.base import Backend
from schemegen.errors import CheckpointError, SchemegenError
from schemegen.formats.words import in_short
from schemegen.planner import Action, Plan
from schemegen.progress import Silent
from schemegen.scheme import Format, Scheme
from schemegen.testing.findings import Findings, told
from schemegen.testing.samples import sample_checkpoint

Make = Callable[[], Backend]
_ABOUT: Final = "whole run"
#: Experts are 128 wide, these others 384.
_RULES: Final[tuple[Mapping[str, Any], ...]] = (
    {"role": "routed_expert"},
    {"role": "shared_expert", "projection": ["gate", "up"]},
)


class Stopped(KeyboardInterrupt):
    """An interruption that no person asked for."""


class Stop(Silent):
    """Progress that interrupts a run, as Ctrl-C does, once it has quantized a third."""

    def __init__(self) -> None:
        self._left: int | None = None

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Count what is quantized, and no other work."""
        self._left = total // 3 if label == "quantize" else None

    def advance(self, nbytes: int) -> None:
        """Stopped after a third."""
        if self._left is not None:
            self._left -= nbytes
            if self._left < 0:
                raise Stopped


def check_runs(
    make: Make, formats: Iterable[Format], method: str | Mapping[str, Any], folder: Path, findings: Findings
) -> None:
    """Run with the first format that goes with some of the sample's layers; each run gets a backend of its own."""
    source = sample_checkpoint(folder / "sample")
    reasons = []
    for format, rule in product(formats, _RULES):
        scheme = _scheme(format, rule, method)
        try:
            planned = plan(scheme, source)
        except SchemegenError as error:
            reasons.append(f"{in_short(format)}: {error}")
            continue
        with findings.taking(_ABOUT):
            _check_run(make, scheme, source, folder, findings)
            _check_damaged(make, scheme, planned, source, folder, findings)
        return
    findings.add(_ABOUT, f"no format goes with the sample ({'; '.join(reasons)})")


def _scheme(format: Format, rule: Mapping[str, Any], method: str | Mapping[str, Any]) -> Scheme:
    return Scheme.model_validate(
        {
            "schema_version": 1,
            "name": "conformance",
            "summary": "a format that a backend takes",
            "formats": {"probe": format},
            "policy": [{**rule, "use": "probe"}],
            "method": method,
        }
    )


def _check_run(make: Make, scheme: Scheme, source: Path, folder: Path, findings: Findings) -> None:
    whole, resumed = folder / "whole", folder / "resumed"
    apply(scheme, source, whole, backend=make(), device="cpu", jobs=2)
    verify(whole, source)
    try:
        apply(scheme, source, resumed, backend=make(), device="cpu", jobs=2, progress=Stop())
        findings.add(_ABOUT, "goes on after Ctrl-C; let KeyboardInterrupt pass")
        return
    except Stopped:
        apply(scheme, source, resumed, backend=make(), device="cpu", jobs=1)
    for path in sorted(whole.glob("*.safetensors")):
        if path.read_bytes() != (resumed / path.name).read_bytes():
            findings.add(_ABOUT, f"{path.name} has other bytes after an interrupted run was resumed")


def _check_damaged(make: Make, scheme: Scheme, planned: Plan, source: Path, folder: Path, findings: Findings) -> None:
    """The run over a source with a NaN, which is the source's fault and nobody else's."""
    tensor = next(tensor for tensor in planned.tensors if tensor.action is Action.QUANTIZE)
    with (source / tensor.source.file).open("r+b") as shard:
        shard.seek(tensor.source.offset + tensor.source.nbytes - 2)
        shard.write(b"\xc0\x7f")
    try:
        apply(scheme, source, folder / "damaged", backend=make(), device="cpu", jobs=2)
    except CheckpointError as error:
        if tensor.name not in str(error):
            findings.add(_ABOUT, f"a NaN in {tensor.name} is told as: {error}")
    except SchemegenError as error:
        findings.add(
            _ABOUT, f"fails over a NaN in the source ({told(error)}); raise NonFiniteWeight or CheckpointError"
        )
    else:
        findings.add(_ABOUT, f"takes a NaN in {tensor.name}; raise NonFiniteWeight or CheckpointError")
