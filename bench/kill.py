"""Kills `apply` at random moments and resumes it: `python -m bench.kill`; exit 1 unless every byte comes out right.

Every second moment is drawn over the whole run, every other one from when the work folder appears. A watch looks at
the output path all the while; each output that gets finished is compared, file for file, with an unbroken run's.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.process import FailedError, apply
from bench.unbroken import Unbroken, Watch, finish, partial, run_unbroken, start
from bench.workspace import Workspace

RENAMED = "after the rename"


@dataclass(slots=True)
class Tally:
    """Where the kills landed, and how many outputs were finished and found equal."""

    landed: Counter[str] = field(default_factory=Counter)
    finished: int = 0
    looks: int = 0

    @property
    def kills(self) -> int:
        """The kills that count: one after the rename interrupts nothing but the closing lines."""
        return self.landed.total() - self.landed[RENAMED]

    def __str__(self) -> str:
        where = ", ".join(f"{count} {place}" for place, count in sorted(self.landed.items()))
        return (
            f"{self.kills} kills that count ({where}), {self.finished} finished outputs equal to an unbroken run, "
            f"{self.looks:,} looks at the output path, no unfinished folder there"
        )


def kill_and_resume(space: Workspace, source: Path, unbroken: Unbroken, kills: int, rng: random.Random) -> Tally:
    """Go on until `kills` have landed before the rename and the last output is finished."""
    tally, output = Tally(), space.output("kill")
    while tally.kills < kills or output.exists() or partial(output).exists():
        more = tally.kills < kills
        low = unbroken.partial_after if tally.landed.total() % 2 else 0.0
        if _one(source, output, unbroken, rng.uniform(low, unbroken.seconds) if more else None, tally):
            unbroken.check(output)
            tally.finished += 1
            space.output("kill")
    return tally


def _one(source: Path, output: Path, unbroken: Unbroken, delay: float | None, tally: Tally) -> bool:
    """One process, killed after `delay` seconds; True if it was finished before that."""
    with Watch(output, unbroken.files) as watch:
        process = start(apply(source, output))
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        killed = process.returncode == -signal.SIGKILL
        finish(process, -signal.SIGKILL if killed else 0)
    tally.looks += watch.looks
    if killed:
        tally.landed[_place(output)] += 1
    return not killed


def _place(output: Path) -> str:
    if output.exists():
        return RENAMED
    if not partial(output).exists():
        return "before any work"
    return "amid the work" if any((partial(output) / "model").glob("*.safetensors")) else "before the first shard"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "schemegen-bench")
    chosen = parser.parse_args()
    space = Workspace(chosen.work.resolve())
    space.require(("medium",), 0.6)
    try:
        source = space.checkpoint("medium")
        unbroken = run_unbroken(space, source)
        print(f"unbroken: {unbroken.seconds:.2f} s, work folder after {unbroken.partial_after:.2f} s", flush=True)
        print(kill_and_resume(space, source, unbroken, chosen.kills, random.Random(chosen.seed)))
    except FailedError as error:
        raise SystemExit(str(error)) from error
    finally:
        space.clean()


if __name__ == "__main__":
    main()
