"""Measures the claims side by side and prints a table with ratios: `python -m bench.run`; exit 1 if a limit is missed.

Every side is a whole process. Sides take turns, the disk is brought to rest before and after each, and the medians
are printed. Outputs are removed between runs, uncounted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.measures import MEASURES, Bench, Row
from bench.process import FailedError
from bench.workspace import Workspace

PEER_VARIABLE = "SCHEMEGEN_BENCH_PEER"


def main() -> None:
    """Command line."""
    chosen = _parser().parse_args()
    names: list[str] = chosen.only or [name for name, measure in MEASURES.items() if measure.default]
    space = Workspace(chosen.work.resolve())
    bench = Bench(space, chosen.rounds, chosen.peer_python or os.environ.get(PEER_VARIABLE) or None)
    _require_space(bench, names)
    try:
        rows = _measure(bench, names)
    except FailedError as error:
        raise SystemExit(str(error)) from error
    finally:
        space.clean()
    if chosen.json:
        _write(chosen.json, bench, rows)
    sys.exit(any(row.kept is False for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    work = Path(tempfile.gettempdir()) / "schemegen-bench"
    parser.add_argument("--only", nargs="+", choices=MEASURES, metavar="NAME", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, default=5, help="alternations (default %(default)s)")
    parser.add_argument("--work", type=Path, default=work, help="folder for checkpoints and outputs (%(default)s)")
    parser.add_argument("--peer-python", help=f"an interpreter with llmcompressor 0.14.0.1 (or {PEER_VARIABLE})")
    parser.add_argument("--json", type=Path, help="write every single run there")
    return parser


def _require_space(bench: Bench, names: Sequence[str]) -> None:
    for name in names:
        if bench.peer is not None or not name.startswith("peer-"):
            bench.space.require(MEASURES[name].checkpoints, MEASURES[name].scratch)


def _measure(bench: Bench, names: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name}", file=sys.stderr)
        found = MEASURES[name].run(bench)
        rows += found
        bench.space.clean(keep={c for later in names[number:] for c in MEASURES[later].checkpoints})
        print(*map(line, found), sep="\n", flush=True)
    return rows


def line(row: Row) -> str:
    """One row as aligned text: verdict, name, figure, limit, detail."""
    verdict = {True: "ok", False: "MISSED", None: "-"}[row.kept]
    figure = "" if row.figure is None else f"{row.figure:.2f} {row.unit}"
    limit = "" if row.limit is None else f"{'at most' if row.at_most else 'at least'} {row.limit:g} {row.unit}"
    return f"{verdict:<7}{row.name:<54}{figure:>9}  {limit:<15} {row.detail}".rstrip()


def _write(path: Path, bench: Bench, rows: Sequence[Row]) -> None:
    document = {
        "machine": {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "rounds": bench.rounds,
        "rows": [asdict(row) | {"kept": row.kept} for row in rows],
        "runs": {
            measure: {side: [asdict(run) for run in runs] for side, runs in sides.items()}
            for measure, sides in bench.record.items()
        },
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
