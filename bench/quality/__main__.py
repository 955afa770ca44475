"""What schemes cost in quality on a small trained checkpoint: `python -m bench.quality --yardstick DIR SCHEME...`.

A scheme is measured as `schemegen apply` writes it; `SCHEME+POLICY` puts a policy in front. transformers runs it in
F32 over windows of held-out bytes, vLLM's CPU build counts the MTP block's accepted drafts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import schemegen
from bench.quality.acceptance import accepted_share, drafts_without_experts
from bench.quality.divergence import WINDOW, Divergence, compare, predict, windows
from bench.quality.figures import Given, given_figures
from bench.quality.generation import byte_prompts

SCHEMES = ("kimi-k2-int4", "kimi-k2-int4+keep-mtp")
SOURCE = "BF16"
WINDOWS = 192
TEXT = "valid.bin"
HOW = "--yardstick DIR, or make bench-quality YARDSTICK=DIR"
HEAD = ("checkpoint", "nats/byte", "KL/byte", "same top", "SQNR dB", "drafts accepted")
NO_EXPERTS = (
    "The MTP block's routed experts are all zero in this checkpoint: its accepted drafts tell what a scheme did\n"
    "to the trunk, and nothing of what it did to the block."
)
PROMPTS, PROMPT_BYTES, PROMPT_TOKENS = 16, 160, 96


@dataclass(frozen=True, slots=True)
class Measured:
    """One checkpoint's figures; `accepted` in percent, None where vLLM was not asked."""

    name: str
    divergence: Divergence
    accepted: float | None


def main() -> None:
    """Command line."""
    chosen = _chosen()
    os.environ["TQDM_DISABLE"] = "1"
    # They are of this many windows.
    given = given_figures(chosen.yardstick / "README.md") if chosen.windows == WINDOWS else {}
    found = []
    print(_line(HEAD), flush=True)
    for measured in _measure(chosen):
        found.append(measured)
        print(*_rows(measured, given.get(measured.name)), sep="\n", flush=True)
    if not chosen.no_vllm and drafts_without_experts(chosen.yardstick):
        print(NO_EXPERTS)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(measured) for measured in found], indent=2) + "\n")


def _chosen(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, understood; a usage error where it names no yardstick."""
    parser = _parser()
    chosen = parser.parse_args(words)
    if chosen.yardstick is None:
        parser.error(f"name a checkpoint of bytes: {HOW}")
    if not (chosen.yardstick / TEXT).is_file():
        parser.error(f"{chosen.yardstick} holds no {TEXT}; name a checkpoint of bytes that does: {HOW}")
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("schemes", nargs="*", default=SCHEMES, metavar="SCHEME[+POLICY...]")
    parser.add_argument(
        "--yardstick", type=Path, nargs="?", metavar="DIR", help=f"a checkpoint of bytes, beside it {TEXT}"
    )
    parser.add_argument("--windows", type=int, default=WINDOWS, help=f"of {WINDOW} bytes (default %(default)s)")
    parser.add_argument("--no-vllm", action="store_true", help="leave the drafts out")
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser


def _measure(chosen: argparse.Namespace) -> Iterator[Measured]:
    tokens = windows(chosen.yardstick / TEXT, chosen.windows)
    prompts = byte_prompts(chosen.yardstick / TEXT, PROMPTS, PROMPT_BYTES, WINDOW)
    source = predict(chosen.yardstick, tokens)

    def measured(name: str, folder: Path) -> Measured:
        prediction = source if name == SOURCE else predict(folder, tokens)
        share = None if chosen.no_vllm else accepted_share(folder, prompts, PROMPT_TOKENS)
        return Measured(name, compare(source, prediction, tokens), share)

    yield measured(SOURCE, chosen.yardstick)
    for name in chosen.schemes:
        with tempfile.TemporaryDirectory(prefix="schemegen-quality-") as scratch:
            scheme, *policies = name.split("+")
            print(f"{name}: applying, then measuring", file=sys.stderr)
            output = schemegen.apply(scheme, chosen.yardstick, Path(scratch) / "output", policies=policies)
            yield measured(name, output.path)


def _rows(measured: Measured, given: Given | None) -> list[str]:
    """The figures, and below them those that the folder's README gives."""
    found = measured.divergence
    accepted = "-" if measured.accepted is None else f"{measured.accepted:.1f} %"
    figures = (f"{found.nats:.5f}", f"{found.kl:.6f}", f"{found.same_top:.4f}", f"{found.sqnr:.2f}", accepted)
    rows = [_line((measured.name, *figures))]
    if given is not None:
        shown = [_shown(given.nats, ".5f"), _shown(given.kl, ".6f"), _shown(given.same_top, ".4f"), "-"]
        rows.append(_line(("  in the README", *shown, _shown(given.accepted, ".1f", " %"))))
    return rows


def _shown(figure: float | None, spec: str, unit: str = "") -> str:
    return "-" if figure is None else f"{figure:{spec}}{unit}"


def _line(cells: Sequence[str]) -> str:
    first, *others = cells
    return f"{first:<26}" + "".join(f"{cell:>17}" for cell in others)


if __name__ == "__main__":
    main()
