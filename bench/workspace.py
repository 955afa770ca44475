"""The benchmark's folder: checkpoints made on demand, outputs that never outlive a measurement, free space first."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from bench.process import measured

GIGABYTE = 10**9
CHECKPOINTS = {
    "wide-3g": 3.4,
    "wide-10g": 10.2,
    "big-shard-1.6": 1.7,
    "big-shard-6": 6.1,
    "medium": 0.5,
    "sparse-full": 0.01,
}


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder for checkpoints and outputs; what this run built is removed again, what lay there before stays."""

    root: Path
    built: set[str] = field(default_factory=set)

    def checkpoint(self, name: str) -> Path:
        """The folder of a checkpoint, built now if it is not there."""
        folder = self.root / name
        if not folder.exists():
            print(f"building {name}", file=sys.stderr)
            shutil.rmtree(self.root / f"{name}.building", ignore_errors=True)
            measured([sys.executable, "-m", "bench.checkpoints", name, str(folder)])
            self.built.add(name)
        return folder.resolve()

    def require(self, checkpoints: Collection[str], scratch: float) -> None:
        """Exit with a message unless the disk holds the missing checkpoints and `scratch` GB of outputs."""
        self.root.mkdir(parents=True, exist_ok=True)
        missing = [name for name in checkpoints if not (self.root / name).exists()]
        needed = scratch + sum(CHECKPOINTS.get(name, 3.4) for name in missing)
        free = shutil.disk_usage(self.root).free / GIGABYTE
        if free < needed:
            raise SystemExit(f"{self.root} has {free:.1f} GB free and this needs {needed:.1f} GB; name another --work")

    def output(self, name: str) -> Path:
        """A path for an output, with whatever lay there or beside it removed."""
        path = self.root / f"out-{name}"
        for leftover in (path, path.with_name(f"{path.name}.partial")):
            shutil.rmtree(leftover, ignore_errors=True)
        return path

    def clean(self, keep: Collection[str] = ()) -> None:
        """Remove all outputs, and the checkpoints that this run built and `keep` does not name."""
        for path in self.root.glob("out-*"):
            shutil.rmtree(path, ignore_errors=True)
        for name in self.built - set(keep):
            shutil.rmtree(self.root / name)
            self.built.discard(name)
