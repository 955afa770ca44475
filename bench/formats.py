"""Every format on one checkpoint, native against llm-compressor: `python -m bench.formats`; exit 1 on a missed limit.

Sides are whole processes in turn: `schemegen apply`, and model_free_ptq told of the same routed experts. NVFP4 has
other global scales there, since it fuses no experts; the signed search has no like there and runs against RTN; MX
groups at the top of the dtype are lost there. All others must have the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.checkpoints import WIDE
from bench.lost import DifferentError, lost_groups
from bench.process import ROOT, FailedError, Run, alternate, measured, median, schemegen
from bench.run import PEER_VARIABLE
from bench.workspace import GIGABYTE, Workspace
from schemegen.peer import scheme_words
from schemegen.scheme import Format

_INT4: Final = {"num_bits": 4, "group_size": 32}
_FP8: Final = {"num_bits": 8, "type": "float"}
_FP4: Final = {"num_bits": 4, "type": "float"}
_MXFP8: Final = {**_FP8, "group_size": 32, "scale_dtype": "uint8"}
_DYNAMIC: Final = {"dynamic": True, "observer": None}
_TOKEN: Final = {**_DYNAMIC, "strategy": "token"}
HEAD: Final = ("format", "schemegen s", "peak GB", "llm-compressor s", "peak GB", "times faster", "at least", "bits")
SAME, LOST = "equal", "equal but for {} groups that it loses"
LAYERS, NO_LIKE = "other global scales: fuses no experts", "not comparable: its side is RTN"


@dataclass(frozen=True, slots=True)
class Case:
    """A format of routed experts, how many times faster than llm-compressor it must be, and how bits compare.

    `peer` are the fields it is told instead, where it has no such format.
    """

    fields: Mapping[str, Any]
    limit: float = 5
    bits: str = SAME
    peer: Mapping[str, Any] = field(default_factory=dict)


CASES: Final[Mapping[str, Case]] = {
    "int4-g32": Case(_INT4, limit=15),
    "int8-g128": Case({"num_bits": 8, "group_size": 128}, limit=15),
    "int4-g128-asym": Case({"num_bits": 4, "group_size": 128, "symmetric": False}),
    "w8a8": Case({"num_bits": 8, "strategy": "channel", "input_activations": {**_TOKEN, "num_bits": 8}}),
    "fp8-channel": Case({**_FP8, "strategy": "channel", "input_activations": {**_FP8, **_TOKEN}}),
    "fp8-tensor": Case(
        {**_FP8, "strategy": "tensor", "input_activations": {**_FP8, **_DYNAMIC, "strategy": "tensor"}},
    ),
    "fp8-block": Case(
        {**_FP8, "block_structure": [128, 128], "input_activations": {**_FP8, **_DYNAMIC, "group_size": 128}}
    ),
    "nvfp4": Case({**_FP4, "strategy": "tensor_group", "group_size": 16}, bits=LAYERS),
    "mxfp4": Case({**_FP4, "group_size": 32}, bits=LOST),
    "mxfp8": Case({**_MXFP8, "input_activations": {**_MXFP8, **_DYNAMIC}}, bits=LOST),
    "int4-g32-mse": Case({**_INT4, "observer": "mse"}),
    "int4-g32-signed": Case({**_INT4, "observer": "signed_mse"}, bits=NO_LIKE, peer=_INT4),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """The folder, the checkpoint's name, rounds, and the interpreter that has llm-compressor."""

    space: Workspace
    checkpoint: str
    rounds: int
    peer: str


def main() -> None:
    """Command line."""
    chosen = _parser().parse_args()
    space = Workspace(chosen.work.resolve())
    name = "wide-3g" if chosen.scale == 1 else f"wide-experts-{WIDE.experts // chosen.scale}"
    bench = Bench(space, name, chosen.rounds, chosen.peer_python or os.environ.get(PEER_VARIABLE) or sys.executable)
    space.require([name], 4.5 / chosen.scale)
    print(f"checkpoint {name}, {chosen.rounds} rounds\n", _line(HEAD), _line(["---"] * len(HEAD)), sep="\n", flush=True)
    good = True
    try:
        for case in chosen.formats or CASES:
            cells, kept = _compared(bench, case, CASES[case])
            good = good and kept
            print(_line((case, *cells)), flush=True)
    finally:
        space.clean()
    sys.exit(not good)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.formats", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    work = Path(tempfile.gettempdir()) / "schemegen-bench"
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default %(default)s)")
    parser.add_argument("--work", type=Path, default=work, help="folder for checkpoints and outputs (%(default)s)")
    parser.add_argument("--peer-python", help=f"an interpreter with llmcompressor 0.14.0.1 (or {PEER_VARIABLE})")
    scale = "both sides on a checkpoint with so many times fewer experts, for less waiting (default %(default)s)"
    parser.add_argument("--scale", type=int, choices=(1, 2, 4, 8, 16), default=1, help=scale)
    return parser


def _compared(bench: Bench, name: str, case: Case) -> tuple[list[str], bool]:
    """The cells of a format, and whether it keeps its limit; one that is not offered is skipped with a word."""
    source, scheme = bench.space.checkpoint(bench.checkpoint), _written(bench.space.output("scheme"), name, case)
    try:
        measured(schemegen("plan", scheme, source), flush=False)
    except FailedError as error:
        return ["-"] * 6 + [f"skipped: {str(error).splitlines()[-1].replace('|', '/')}"], True
    ours, theirs = bench.space.output("schemegen"), bench.space.output("peer")
    words = json.dumps(scheme_words(Format.model_validate(case.peer or case.fields)))
    script = [bench.peer, str(ROOT / "bench" / "peer_format.py"), str(source), str(theirs), words]
    sides = {
        "apply": lambda: _fresh(bench, "schemegen", schemegen("apply", scheme, source, "-o", ours)),
        "llm-compressor": lambda: _fresh(bench, "peer", script),
    }
    runs = alternate(sides, bench.rounds, cold="llm-compressor")
    bits, same = _bits(case, ours, theirs)
    ratio = median(runs["llm-compressor"]) / median(runs["apply"])
    good = ratio >= case.limit and same
    return [*_figures(runs["apply"]), *_figures(runs["llm-compressor"]), f"{ratio:.1f}", f"{case.limit:g}", bits], good


def _bits(case: Case, ours: Path, theirs: Path) -> tuple[str, bool]:
    """How the bits compare, in words, and whether they are as they should be."""
    if case.bits not in (SAME, LOST):
        return case.bits, True
    try:
        lost = lost_groups(ours, theirs)
    except DifferentError as error:
        return str(error), False
    return (LOST.format(lost), case.bits == LOST) if lost else (SAME, True)


def _written(folder: Path, name: str, case: Case) -> Path:
    """A scheme file with the format; every YAML parser reads JSON."""
    head = {"schema_version": 1, "name": name, "summary": "A format of routed experts", "policy": "experts-only"}
    folder.mkdir()
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({**head, "formats": {"format": dict(case.fields)}}))
    return path


def _fresh(bench: Bench, output: str, command: list[str]) -> Run:
    bench.space.output(output)
    return measured(command)


def _figures(runs: list[Run]) -> tuple[str, str]:
    return f"{median(runs):.2f}", f"{max(run.rss for run in runs) / GIGABYTE:.2f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
