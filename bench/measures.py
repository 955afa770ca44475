"""One function a claim; each gives rows of the table that `bench.run` prints."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.process import ROOT, SCHEME, FailedError, Run, alternate, apply, measured, median, schemegen
from bench.workspace import GIGABYTE, Workspace

SAMPLE = "sample:qwen3.6-moe"
FULL_TOTALS = {"tensors_out": 95_427, "bytes_out": 24_441_405_152}
NO_PEER = "not measured: no peer environment (--peer-python, or SCHEMEGEN_BENCH_PEER)"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a figure, its unit, and the limit it must keep (None: only reported)."""

    name: str
    figure: float | None
    unit: str
    limit: float | None = None
    at_most: bool = True
    detail: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the limit is kept; None without a figure or a limit."""
        if self.figure is None or self.limit is None:
            return None
        return self.figure <= self.limit if self.at_most else self.figure >= self.limit


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement needs: the folder, how often, the reference's interpreter, and a record of all runs."""

    space: Workspace
    rounds: int
    peer: str | None
    record: dict[str, dict[str, list[Run]]] = field(default_factory=dict)

    def alternate(self, measure: str, sides: dict[str, Callable[[], Run]], cold: str = "") -> dict[str, list[Run]]:
        """`process.alternate`, kept in the record."""
        runs = self.record[measure] = alternate(sides, self.rounds, cold=cold)
        return runs

    def apply(self, model: str | Path) -> Callable[[], Run]:
        """A side that applies the scheme to a model, onto a fresh path every time."""
        return lambda: measured(apply(model, self.space.output("schemegen")))


def sample(bench: Bench) -> list[Row]:
    """`apply` of the built-in sample, start-up and all."""
    runs = bench.alternate("sample", {"apply sample": bench.apply(SAMPLE)})
    return [Row("apply of the sample, whole process", median(runs["apply sample"]), "s", 1.5)]


def copy(bench: Bench) -> list[Row]:
    """`apply` of 3.3 GB, less start-up, against `cp -r` of the same folder; with and without the `sync` after it."""
    source = bench.space.checkpoint("wide-3g")
    command = ["cp", "-r", str(source)]
    sides = {
        "apply sample": bench.apply(SAMPLE),
        "apply 3.3 GB": bench.apply(source),
        "cp -r 3.3 GB": lambda: measured([*command, str(bench.space.output("copy"))]),
    }
    runs = bench.alternate("copy", sides)
    figures: dict[str, Callable[[Run], float]] = {"": lambda r: r.seconds, ", sync included": lambda r: r.synced}
    return [_copy_row(label, *(median(runs[side], figure) for side in sides)) for label, figure in figures.items()]


def _copy_row(label: str, start: float, whole: float, cp: float) -> Row:
    detail = f"apply {whole:.2f} s, sample {start:.2f} s, cp {cp:.2f} s"
    return Row(f"(apply 3.3 GB - apply sample) / cp -r{label}", (whole - start) / cp, "x", 1.2, detail=detail)


def peer_3g(bench: Bench) -> list[Row]:
    """The reference script on 3.3 GB, whole processes."""
    return _peer(bench, "wide-3g", "3.3 GB", 15)


def peer_10g(bench: Bench) -> list[Row]:
    """The reference script on 10 GB, whole processes."""
    return _peer(bench, "wide-10g", "10 GB", 20)


def _peer(bench: Bench, name: str, size: str, limit: float) -> list[Row]:
    title = f"llm-compressor / apply, {size}"
    if bench.peer is None:
        return [Row(title, None, "x", limit, at_most=False, detail=NO_PEER)]
    source = bench.space.checkpoint(name)
    script = [bench.peer, str(ROOT / "bench" / "seed_script.py"), str(source)]
    sides = {
        "apply": bench.apply(source),
        "llm-compressor": lambda: measured([*script, str(bench.space.output("peer"))]),
    }
    runs = bench.alternate(name, sides, cold="llm-compressor")
    ours, theirs = median(runs["apply"]), median(runs["llm-compressor"])
    peak = max(run.rss for run in runs["llm-compressor"]) / GIGABYTE
    verdict = _compared(bench.space.root / "out-schemegen", bench.space.root / "out-peer")
    detail = f"apply {ours:.2f} s, llm-compressor {theirs:.1f} s and {peak:.1f} GB; {verdict}"
    return [Row(title, theirs / ours, "x", limit, at_most=False, detail=detail)]


def _compared(left: Path, right: Path) -> str:
    command = [sys.executable, "-m", "bench.compare", str(left), str(right), "--model-tensors-only"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode:
        raise FailedError(f"{left} and {right} are not equal:\n{said.stdout}{said.stderr}")
    return said.stdout.strip()


def memory(bench: Bench) -> list[Row]:
    """Peak resident memory of `apply`, and whether it grows with the shard."""
    peaks = {name: _peak(bench, name) for name in ("wide-3g", "big-shard-1.6", "big-shard-6")}
    small, large = peaks["big-shard-1.6"], peaks["big-shard-6"]
    detail = f"shard of 1.6 GB {small:.3f} GB, of 6 GB {large:.3f} GB"
    return [
        Row("peak memory, 3.3 GB", peaks["wide-3g"], "GB", 0.7),
        Row("peak memory, shard of 6 GB", large, "GB", 0.7),
        Row("peak memory, shard of 6 GB / of 1.6 GB", large / small, "x", 1.1, detail=detail),
    ]


def _peak(bench: Bench, name: str) -> float:
    source = bench.space.checkpoint(name)
    runs = bench.alternate(f"memory {name}", {"apply": bench.apply(source)})
    return max(run.rss for run in runs["apply"]) / GIGABYTE


def startup(bench: Bench) -> list[Row]:
    """Commands that should answer at once."""
    limits = {"--help": 0.35, "list": 0.6}
    runs = bench.alternate("startup", {word: _command(word) for word in limits})
    return [Row(f"schemegen {word}", median(runs[word]), "s", limit) for word, limit in limits.items()]


def plan(bench: Bench) -> list[Row]:
    """`plan` of the full-size model from headers, with the totals it must come to."""
    source = bench.space.checkpoint("sparse-full")
    runs = bench.alternate("plan", {"plan": _command("plan", SCHEME, source)})
    totals = _totals(source)
    if wrong := {key: totals[key] for key in FULL_TOTALS if totals[key] != FULL_TOTALS[key]}:
        raise FailedError(f"the plan of the full model should come to {FULL_TOTALS}, not {wrong}")
    detail = f"{totals['tensors_out']:,} tensors, {totals['bytes_out']:,} bytes"
    return [Row("plan of the full model (71.9 GB)", median(runs["plan"]), "s", 1.5, detail=detail)]


def _command(*words: str | Path) -> Callable[[], Run]:
    return lambda: measured(schemegen(*words), flush=False)


def _totals(source: Path) -> dict[str, int]:
    """The totals of `plan --json`, taken in another process: the document is large and would count as ours."""
    take = "import json, sys; print(json.dumps(json.load(sys.stdin)['totals']))"
    with tempfile.TemporaryFile() as document:
        subprocess.run(schemegen("plan", SCHEME, source, "--json"), cwd=ROOT, stdout=document, check=True)
        document.seek(0)
        taken = subprocess.run([sys.executable, "-c", take], stdin=document, capture_output=True, check=True)
    totals: dict[str, int] = json.loads(taken.stdout)
    return totals


def full(bench: Bench) -> list[Row]:
    """`apply` of the sparse stand-in of the full model, once: 71.9 GB in, 24.4 GB out; then `verify`."""
    source, output = bench.space.checkpoint("sparse-full"), bench.space.output("full")
    runs = bench.record["full"] = {"apply": [measured(apply(source, output))]}
    runs["verify"] = [measured(schemegen("verify", output, "--against", source))]
    run, seconds = runs["apply"][0], runs["verify"][0].seconds
    shutil.rmtree(output)
    return [
        Row("apply of the full model (sparse, 71.9 GB)", run.seconds, "s", detail=f"{71.9 / run.seconds:.2f} GB/s"),
        Row("peak memory, full model", run.rss / GIGABYTE, "GB", 0.7),
        Row("verify --against of the full model", seconds, "s", detail="passed"),
    ]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement, the checkpoints it needs and the GB of outputs that lie on the disk at its worst moment."""

    run: Callable[[Bench], list[Row]]
    checkpoints: tuple[str, ...] = ()
    scratch: float = 0.2
    default: bool = True


MEASURES = {
    "sample": Measure(sample),
    "startup": Measure(startup),
    "plan": Measure(plan, ("sparse-full",)),
    "copy": Measure(copy, ("wide-3g",), 4.8),
    "peer-3g": Measure(peer_3g, ("wide-3g",), 2.4),
    "memory": Measure(memory, ("wide-3g", "big-shard-1.6", "big-shard-6"), 2.4),
    "peer-10g": Measure(peer_10g, ("wide-10g",), 6.8),
    "full": Measure(full, ("sparse-full",), 26.0, default=False),
}
