"""One scheme by every backend, each in a process of its own: bits, seconds, peak memory. `python -m bench.backends`.

Sides are native-rtn with its CPU kernels, native-rtn through torch (behind the machinery of a GPU, on torch's CPU), and
llmcompressor-rtn where that plugin is installed. Exit 1 where bits differ from the first side's, or a side fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.checkpoints import RECIPES
from bench.compare import stored_tensors, tensor_differences
from bench.process import ROOT, SCHEME, FailedError, measured
from bench.run import PEER_VARIABLE
from bench.workspace import GIGABYTE, Workspace

SAMPLE = "sample:qwen3.6-moe"
CHECKPOINTS = [SAMPLE, "fused", "one-by-one", "mixed-layout", "f16", "f32", "wide-3g"]
PLUGIN = "llmcompressor-rtn"


@dataclass(frozen=True, slots=True)
class Side:
    """One way to compute: its name, and the command line up to MODEL; or why there is none."""

    name: str
    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    missing: str = ""

    def line(self, model: str | Path, output: Path) -> list[str]:
        """The command line of an `apply`."""
        return [*self.command, "apply", SCHEME, str(model), "-o", str(output), *self.options]


def main() -> None:
    """Command line."""
    chosen = _parser().parse_args()
    space = Workspace(chosen.work.resolve())
    sides = _sides(chosen.peer_python or os.environ.get(PEER_VARIABLE) or sys.executable)
    print(f"{'checkpoint':<20}{'backend':<20}{'seconds':>8}{'peak GB':>9}  bits")
    try:
        good = [_told(space, checkpoint, sides) for checkpoint in chosen.checkpoints]
    finally:
        space.clean()
    sys.exit(not all(good))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    work = Path(tempfile.gettempdir()) / "schemegen-bench"
    names = ", ".join(RECIPES)
    parser.add_argument("checkpoints", nargs="*", default=CHECKPOINTS, help=f"folders, {SAMPLE}, or of {names}")
    parser.add_argument("--work", type=Path, default=work, help="folder for checkpoints and outputs (%(default)s)")
    parser.add_argument("--peer-python", help=f"an interpreter with torch and the plugin (or {PEER_VARIABLE})")
    return parser


def _sides(peer: str) -> list[Side]:
    """The first is what the others are compared with."""
    here, there = (sys.executable, "-m", "schemegen"), (peer, "-m", "schemegen")
    native = ("--backend", "native-rtn", "--device")
    return [
        Side("native-rtn, cpu", here, (*native, "cpu")),
        Side("native-rtn, torch", there, (*native, "torch:cpu"), _without_torch(peer)),
        Side(PLUGIN, there, ("--backend", PLUGIN), _without_plugin(peer)),
    ]


def _without_torch(python: str) -> str:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    found = subprocess.run([python, "-c", code], check=False)
    return "skipped: no torch there (--peer-python)" if found.returncode else ""


def _without_plugin(python: str) -> str:
    command = [python, "-m", "schemegen", "list", "backends", "--json"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = [row["name"] for row in json.loads(said.stdout or "[]")]
    return "" if PLUGIN in names else "skipped: the plugin is not installed there (--peer-python)"


def _told(space: Workspace, checkpoint: str, sides: list[Side]) -> bool:
    """Run and print all sides on one checkpoint; whether none failed and all bits are equal."""
    model = _model(space, checkpoint)
    first, *_ = outputs = [space.output(f"side-{number}") for number in range(len(sides))]
    good = True
    for side, output in zip(sides, outputs, strict=True):
        figures, verdict = f"{'':>17}", side.missing
        if not verdict:
            figures, verdict = _ran(side, model, output, first)
            good = good and verdict.startswith("equal")
        print(f"{Path(checkpoint).name:<20}{side.name:<20}{figures}  {verdict}", flush=True)
    for output in outputs:
        shutil.rmtree(output, ignore_errors=True)
    return good


def _model(space: Workspace, checkpoint: str) -> str | Path:
    if checkpoint == SAMPLE or Path(checkpoint).is_dir():
        return checkpoint if checkpoint == SAMPLE else Path(checkpoint).resolve()
    if checkpoint not in RECIPES:
        raise SystemExit(f"no folder and no recipe {checkpoint!r}; choose from {SAMPLE}, {', '.join(RECIPES)}")
    _require(space, RECIPES[checkpoint].nbytes / GIGABYTE * (3 if (space.root / checkpoint).exists() else 4))
    return space.checkpoint(checkpoint)


def _require(space: Workspace, gigabytes: float) -> None:
    space.root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(space.root).free / GIGABYTE
    if free < gigabytes:
        raise SystemExit(f"{space.root} has {free:.1f} GB free and this needs {gigabytes:.1f} GB; name another --work")


def _ran(side: Side, model: str | Path, output: Path, first: Path) -> tuple[str, str]:
    """Seconds and peak memory as text, and how the output compares with the first one."""
    try:
        run = measured(side.line(model, output))
    except FailedError as error:
        return f"{'':>17}", f"failed: {str(error).splitlines()[-1]}"
    return f"{run.seconds:>8.2f}{run.rss / GIGABYTE:>9.2f}", _verdict(first, output)


def _verdict(first: Path, output: Path) -> str:
    if output != first:
        for difference in islice(tensor_differences(first, output, same_shards=True), 1):
            return f"different: {difference}"
    tensors = stored_tensors(output)
    size = sum(tensor.stop - tensor.start for tensor in tensors.values())
    return f"equal: {len(tensors):,} tensors, {size:,} bytes"


if __name__ == "__main__":
    main()
