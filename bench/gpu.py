"""Bits and speed of the torch path on a GPU: `python -m bench.gpu`; exit 1 where a bit differs or a limit is missed.

First the device's bits against the CPU's for every format and dtype, on weights that rounding gets wrong. Then what the
machine allows (kernels alone, bus, disk), and whole runs on either device, whose folders must be equal. It needs torch
with CUDA, numba and, for the runs, schemegen installed with what it needs. `--device torch:cpu --size small` tries all
of it without a GPU.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import gpu_bits, gpu_speed
from bench.checkpoints import build
from bench.measures import Row
from bench.run import line


@dataclass(frozen=True, slots=True)
class Size:
    """How much is compared and moved: rows of 1,024 weights, MiB through kernels and bus, MiB on disk, a checkpoint."""

    rows: int
    mebibytes: int
    disk: int
    checkpoint: str
    rounds: int


SIZES = {"full": Size(2048, 64, 2048, "wide-3g", 3), "small": Size(128, 4, 64, "fused", 1)}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or torch:cpu to try without a GPU (%(default)s)")
    parser.add_argument("--size", choices=SIZES, default="full", help="how much (%(default)s)")
    parser.add_argument("--work", type=Path, help="folder for checkpoint and outputs (a temporary one)")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP", help=", ".join(STEPS))
    chosen = parser.parse_args()
    began, work = time.perf_counter(), Path(tempfile.mkdtemp(prefix="schemegen-gpu-", dir=chosen.work))
    try:
        kept = [_told(STEPS[step], chosen.device, SIZES[chosen.size], work) for step in chosen.only]
    finally:
        shutil.rmtree(work)
    print(f"in all {time.perf_counter() - began:.0f} s")
    sys.exit(not all(kept))


def _told(step: Callable[[str, Size, Path], Iterator[Row]], device: str, size: Size, work: Path) -> bool:
    """Print a step's rows as they come; whether none missed its limit."""
    kept = True
    for row in step(device, size, work):
        print(line(row), flush=True)
        kept = kept and row.kept is not False
    return kept


def machine(device: str, size: Size, work: Path) -> Iterator[Row]:
    """What this is."""
    import torch

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "no GPU"
    yield Row(f"{device} is {name}", None, "", detail=f"torch {torch.__version__}, Python {sys.version.split()[0]}")


def bits(device: str, size: Size, work: Path) -> Iterator[Row]:
    """Formats whose bits differ from the CPU's, with the first difference of each; none is the limit."""
    formats = weights = different = 0
    for name, count, difference in gpu_bits.differences(device, size.rows):
        formats, weights = formats + 1, weights + count
        if difference is not None:
            different += 1
            yield Row(name, None, "", detail=difference)
    detail = f"{formats} formats and dtypes, {weights / 1e6:.0f} million weights: codes, scales, restored, not finite"
    yield Row("formats with other bits than the CPU's", float(different), "", 0, detail=detail)


def speed(device: str, size: Size, work: Path) -> Iterator[Row]:
    """Kernels, bus and disk by themselves."""
    yield from gpu_speed.kernels(device, size.mebibytes)
    yield from gpu_speed.bus(device, size.mebibytes)
    yield from gpu_speed.disk(work, size.disk)


def runs(device: str, size: Size, work: Path) -> Iterator[Row]:
    """Whole runs of a written checkpoint."""
    try:
        import schemegen.api  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"no runs: {error}; install it, or leave them out with --only machine bits speed") from None
    build(size.checkpoint, work / size.checkpoint)
    yield from gpu_speed.runs(work / size.checkpoint, work, device, size.rounds)


STEPS: dict[str, Callable[[str, Size, Path], Iterator[Row]]] = {
    "machine": machine,
    "bits": bits,
    "speed": speed,
    "runs": runs,
}

if __name__ == "__main__":
    main()
