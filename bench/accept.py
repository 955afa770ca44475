"""Every built-in scheme on small checkpoints, experts stacked and one by one: a table. `python -m bench.accept`.

Columns: planned bytes are the written ones, tensor by tensor; `verify --against` passes; who else computes the bits;
whether torch's CPU computes them too. Exit 1 where a cell tells a failure.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import schemegen
from bench.compare import stored_tensors, tensor_differences
from bench.lost import DifferentError
from bench.oracle import NO_PLUGIN, agreeing
from bench.process import ROOT
from bench.workspace import Workspace
from schemegen import Plan, SchemegenError
from schemegen.checkpoint import open_checkpoint

LAYOUTS: Final = {"fused": "stacked", "one-by-one": "one by one"}
HEAD: Final = ("scheme", "experts", "planned = written", "verify", "bits equal to", "torch:cpu")
#: Raised where a claim does not hold; anything else ends the bench.
FAULTS: Final = (SchemegenError, DifferentError, ValueError, ModuleNotFoundError)


@dataclass(frozen=True, slots=True)
class Row:
    """A scheme on a layout: what each column tells, and whether all of it is good."""

    cells: tuple[str, ...]
    good: bool


def main() -> None:
    """Command line."""
    chosen = _parser().parse_args()
    space = Workspace(chosen.work.resolve())
    space.require([], 0.5)
    good = True
    print(_line(HEAD), _line(["---"] * len(HEAD)), sep="\n", flush=True)
    try:
        for name in chosen.schemes or built_in():
            for layout in LAYOUTS:
                row = accepted(space, name, layout)
                good = good and row.good
                print(_line(row.cells), flush=True)
    finally:
        space.clean()
    sys.exit(not good)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.accept", description=__doc__)
    work = Path(tempfile.gettempdir()) / "schemegen-bench"
    parser.add_argument("schemes", nargs="*", metavar="SCHEME", help="names or files; by default all built-in ones")
    parser.add_argument("--work", type=Path, default=work, help="folder for checkpoints and outputs (%(default)s)")
    return parser


def built_in() -> list[str]:
    """The schemes that the package ships."""
    return sorted(path.stem for path in (ROOT / "schemes").glob("*.yaml"))


def accepted(space: Workspace, scheme: str, layout: str) -> Row:
    """Apply, verify and compare one scheme on one layout."""
    source = space.checkpoint(layout)
    output, other, scratch = (space.output(name) for name in ("accept", "accept-torch", "accept-scratch"))
    head = (scheme, LAYOUTS[layout])
    try:
        plan = schemegen.apply(scheme, source, output, device="cpu").plan
    except FAULTS as error:
        return Row((*head, f"**failed**: {_first_line(error)}", "-", "-", "-"), good=False)
    checks: Iterable[Callable[[], str]] = (
        lambda: _written(plan, output),
        lambda: _verified(output, source),
        lambda: _agreed(plan, source, output, scratch),
        lambda: _on_torch(scheme, source, output, other),
    )
    told = [_told(check) for check in checks]
    for folder in (output, other, scratch):
        shutil.rmtree(folder, ignore_errors=True)
    return Row((*head, *(text for text, _ in told)), all(good for _, good in told))


def _told(check: Callable[[], str]) -> tuple[str, bool]:
    try:
        return check(), True
    except FAULTS as error:
        return f"**no**: {_first_line(error)}", False


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n")[:2]).replace("|", "/")


def _written(plan: Plan, output: Path) -> str:
    """Names, dtypes, shapes, shards and bytes of all tensors."""
    planned = {o.name: (o.file, o.dtype, o.shape, o.nbytes) for tensor in plan.tensors for o in tensor.outputs}
    found = {n: (s.file, s.dtype, s.shape, s.stop - s.start) for n, s in stored_tensors(output).items()}
    if different := [name for name in planned.keys() | found.keys() if planned.get(name) != found.get(name)]:
        raise DifferentError(f"{min(different)} is not written as planned")
    total = sum(nbytes for *_, nbytes in found.values())
    if total != plan.totals.bytes_out:
        raise DifferentError(f"{total:,} bytes written, {plan.totals.bytes_out:,} planned")
    return f"{total:,}"


def _verified(output: Path, source: Path) -> str:
    schemegen.verify(output, against=source)
    return "passed"


def _agreed(plan: Plan, source: Path, output: Path, scratch: Path) -> str:
    found = agreeing(plan, open_checkpoint(str(source), None), output, scratch)
    names = list(dict.fromkeys(found.values()))
    if NO_PLUGIN in names:
        raise ModuleNotFoundError("install the plugin schemegen-llmcompressor")
    if len(names) == 1:
        return names[0]
    return "; ".join(f"{format}: {name}" for format, name in found.items())


def _on_torch(scheme: str, source: Path, output: Path, other: Path) -> str:
    schemegen.apply(scheme, source, other, device="torch:cpu")
    for difference in islice(tensor_differences(output, other, same_shards=True), 1):
        raise DifferentError(difference)
    return "equal"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
