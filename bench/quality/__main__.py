"""What schemes cost in quality on a small trained checkpoint: `python -m bench.quality --yardstick DIR [SCHEME...]`.

A scheme is measured as `schemegen apply` writes it, by default every built-in one; `SCHEME+POLICY` puts a policy in
front. Its weights are decoded to the source's dtype by schemegen itself and run by transformers in F32 over windows of
held-out bytes, so that all formats are measured alike; activations are never quantized here. Where transformers decodes
the checkpoint itself, in F32, a second row has what it finds. vLLM's CPU build counts the MTP block's accepted drafts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import schemegen
from bench.process import ROOT
from bench.quality.acceptance import accepted_share, drafts_without_experts
from bench.quality.decoded import EXPERTS, decode
from bench.quality.divergence import WINDOW, Divergence, Prediction, compare, predict, windows
from bench.quality.figures import Given, given_figures
from bench.quality.generation import byte_prompts
from schemegen import Plan, SchemegenError
from schemegen.formats import storage_of

SOURCE = "BF16"
WINDOWS = 192
TEXT = "valid.bin"
HOW = "--yardstick DIR, or make bench-quality YARDSTICK=DIR"
HEAD = ("checkpoint", "nats/byte", "KL/byte", "same top", "SQNR experts dB", "SQNR others dB", "drafts accepted")
NO_EXPERTS = (
    "The MTP block's routed experts are all zero in this checkpoint: its accepted drafts tell what a scheme did\n"
    "to the trunk, and nothing of what it did to the block."
)
WEIGHTS_ALONE = (
    "* declares quantized activations too: this is what its weights cost, activations are not quantized here."
)
PROMPTS, PROMPT_BYTES, PROMPT_TOKENS = 16, 160, 96
#: Schemes whose drafts are counted without being asked for: they quantize the MTP block.
DRAFTED: Final = "kimi-"


@dataclass(frozen=True, slots=True)
class Measured:
    """One checkpoint's figures: decoded here, and as transformers decodes it, where it does.

    `sqnr` by role; `accepted` in percent, None where vLLM was not asked; `refused` tells why there are none at all.
    """

    name: str
    divergence: Divergence | None
    as_stored: Divergence | None = None
    sqnr: Mapping[str, float] = field(default_factory=dict)
    accepted: float | None = None
    activations: bool = False
    refused: str = ""


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
    if any(measured.activations for measured in found):
        print(WEIGHTS_ALONE)
    if any(measured.accepted is not None for measured in found) and drafts_without_experts(chosen.yardstick):
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
    chosen.schemes = chosen.schemes or sorted(path.stem for path in (ROOT / "schemes").glob("*.yaml"))
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schemes", nargs="*", metavar="SCHEME[+POLICY...]", help="by default all built-in ones")
    parser.add_argument(
        "--yardstick", type=Path, nargs="?", metavar="DIR", help=f"a checkpoint of bytes, beside it {TEXT}"
    )
    parser.add_argument("--windows", type=int, default=WINDOWS, help=f"of {WINDOW} bytes (default %(default)s)")
    parser.add_argument(
        "--drafts",
        choices=("none", "kimi", "all"),
        default="kimi",
        help="whose drafts vLLM counts, a minute each: by default the schemes that quantize the MTP block",
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser


@dataclass(frozen=True, slots=True)
class Bench:
    """The yardstick, its windows and prompts, what it predicts unquantized, and whose drafts are counted."""

    yardstick: Path
    tokens: Any
    prompts: list[list[int]]
    source: Prediction
    drafts: str

    def accepted(self, name: str, folder: Path) -> float | None:
        """The share of accepted drafts, where they are counted."""
        asked = {"none": False, "all": True, "kimi": name.startswith(DRAFTED) or name == SOURCE}[self.drafts]
        return accepted_share(folder, self.prompts, PROMPT_TOKENS) if asked else None

    def measured(self, name: str) -> Measured:
        """Apply a scheme, decode what it writes, and run that."""
        scheme, *policies = name.split("+")
        with tempfile.TemporaryDirectory(prefix="schemegen-quality-") as scratch:
            output, decoded = Path(scratch) / "output", Path(scratch) / "decoded"
            try:
                plan = schemegen.apply(scheme, self.yardstick, output, policies=policies, device="cpu").plan
            except SchemegenError as error:
                return Measured(name, None, refused=" ".join(str(error).splitlines()[:2]))
            sqnr = decode(plan, output, self.yardstick, decoded)
            stored = self._compared(output) if _is_loaded(plan) else None
            activations = any(format.input_activations is not None for format in plan.formats_used.values())
            return Measured(name, self._compared(decoded), stored, sqnr, self.accepted(name, output), activations)

    def _compared(self, folder: Path) -> Divergence:
        return compare(self.source, predict(folder, self.tokens), self.tokens)


def _is_loaded(plan: Plan) -> bool:
    """Whether transformers decodes it, to F32, without quantizing activations of its own."""
    formats = plan.formats_used.values()
    packed = all(storage_of(format) == "pack-quantized" and format.weights.symmetric for format in formats)
    return packed and len(formats) == 1 and all(format.input_activations is None for format in formats)


def _measure(chosen: argparse.Namespace) -> Iterator[Measured]:
    tokens = windows(chosen.yardstick / TEXT, chosen.windows)
    prompts = byte_prompts(chosen.yardstick / TEXT, PROMPTS, PROMPT_BYTES, WINDOW)
    source = predict(chosen.yardstick, tokens)
    bench = Bench(chosen.yardstick, tokens, prompts, source, chosen.drafts)
    counted = chosen.drafts == "all" or any(name.startswith(DRAFTED) for name in chosen.schemes)
    accepted = bench.accepted(SOURCE, chosen.yardstick) if counted else None
    yield Measured(SOURCE, compare(source, source, tokens), accepted=accepted)
    for name in chosen.schemes:
        print(f"{name}: applying, then measuring", file=sys.stderr)
        yield bench.measured(name)


def _rows(measured: Measured, given: Given | None) -> list[str]:
    """The figures, below them those of transformers' own decoding and those that the folder's README gives."""
    name = measured.name + (" *" if measured.activations else "")
    if measured.divergence is None:
        return [f"{name:<26}{'not applied':>17}  {measured.refused}"]
    others = [figure for role, figure in measured.sqnr.items() if role != EXPERTS]
    noise = [_shown(measured.sqnr.get(EXPERTS), ".2f"), _shown(min(others, default=None), ".2f")]
    rows = [_line((name, *_figures(measured.divergence), *noise, _shown(measured.accepted, ".1f", " %")))]
    if measured.as_stored is not None:
        rows.append(_line(("  decoded to F32", *_figures(measured.as_stored), "-", "-", "-")))
    if given is not None:
        shown = [_shown(given.nats, ".5f"), _shown(given.kl, ".6f"), _shown(given.same_top, ".4f"), "-", "-"]
        rows.append(_line(("  in the README", *shown, _shown(given.accepted, ".1f", " %"))))
    return rows


def _figures(found: Divergence) -> tuple[str, str, str]:
    return f"{found.nats:.5f}", f"{found.kl:.6f}", f"{found.same_top:.4f}"


def _shown(figure: float | None, spec: str, unit: str = "") -> str:
    return "-" if figure is None else f"{figure:{spec}}{unit}"


def _line(cells: Sequence[str]) -> str:
    first, *others = cells
    return f"{first:<26}" + "".join(f"{cell:>17}" for cell in others)


if __name__ == "__main__":
    main()
