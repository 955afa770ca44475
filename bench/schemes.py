"""Every built-in scheme on the layout of Qwen3.6-35B-A3B: bytes, and seconds to plan. `python -m bench.schemes`.

Sizes stand beside what was reckoned apart from the planner; planning is a whole process, `schemegen plan`. Exit 1 where
a size is further off than 0.1 GB, or planning takes longer than 2 s. `--full DIR` is a folder that `python -m
bench.checkpoints sparse-full DIR` made; without it one is made, and removed again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.checkpoints import FULL, build
from bench.configs import config
from bench.layout import Dims, tensors
from bench.process import measured, schemegen
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.catalog import Catalog, load_catalog
from schemegen.checkpoint.model import Checkpoint, Shard, TensorHeader
from schemegen.formats.words import reading_order
from schemegen.planner import Plan, make_plan, resolve_rules
from schemegen.scheme import Scheme

#: GB of the whole model, its MTP block in BF16: parameters as transformers' config class counts them (71.92 GB in
#: BF16), times bytes a parameter. 32.212e9 in routed experts, 1.407e9 in the other linear layers, 0.509e9 in lm_head.
RECKONED: Final = {
    "kimi-k2-int4": 25.61,
    "kimi-k2-int4-exact": 25.61,
    "w4a16-g32": 25.61,
    "w4a16-g32-mse": 25.61,
    "w4a16-g32-signed": 25.61,
    "w4a16-g64": 24.60,
    "w4a16-g128": 24.10,
    "w4a16-g128-asym": 24.22,
    "w4a16-g128-signed": 24.10,
    "w4afp8": 24.10,
    "mxfp4a16-experts": 24.61,
    "nvfp4a16": 23.59,
    "nvfp4a16-experts": 25.61,
    "w8a8-int8": 38.30,
    "w8a16": 38.30,
    "fp8-block": 38.30,
    "fp8-dynamic": 38.30,
    "mxfp8": 39.35,
    "int4-fp8-mix": 22.69,
    "int4-int8-mix": 22.72,
    "int4-int8-mix-g32": 24.23,
    "int4-int8-mix-lm-head": 22.22,
    "mxfp4-fp8-mix": 23.20,
    "nvfp4-fp8-mix": 24.21,
}
#: What the MTP block's routed experts, 0.805e9 parameters, save at 0.5625 bytes each: these two schemes quantize them.
_MTP_EXPERTS: Final = 0.805e9 * (2 - 0.5625) / 1e9
_WITH_MTP: Final = ("kimi-k2-int4", "kimi-k2-int4-exact")
TOLERANCE: Final = 0.1
_MOST_SECONDS: Final = 2.0
_SHARD: Final = "model.safetensors"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", type=Path, help="the full-size model's folder of headers")
    parser.add_argument("--rounds", type=int, default=3, help="plans a scheme (default %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these schemes")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        full = chosen.full or Path(folder) / "sparse-full"
        if not full.exists():
            build("sparse-full", full)
        kept = [_row(scheme, full, chosen.rounds) for scheme in schemes(chosen.only)]
    sys.exit(not all(kept))


def schemes(only: list[str] | None = None) -> list[Scheme]:
    """The built-in schemes in reading order."""
    known = load_catalog().schemes
    found = [scheme for scheme in known if known.origin(scheme.name) == "schemegen"]
    return sorted((scheme for scheme in found if not only or scheme.name in only), key=reading_order)


def headers_of(dims: Dims) -> Checkpoint:
    """A checkpoint of this layout in one shard, as headers alone."""
    found, position = [], 0
    for tensor in tensors(dims):
        found.append(TensorHeader(tensor.name, tensor.dtype, tensor.shape, _SHARD, position, tensor.nbytes))
        position += tensor.nbytes
    told: dict[str, Any] = config(dims)
    shards = (Shard(_SHARD, position, 0, ""),)
    return Checkpoint(Path("headers"), "headers", None, told, json.dumps(told), None, {}, shards, tuple(found), (), ())


def plan_of(scheme: Scheme, checkpoint: Checkpoint, catalog: Catalog | None = None) -> Plan:
    """The plan, whether or not a backend can carry it out."""
    find = (catalog or load_catalog()).policies.get
    return make_plan(checkpoint, QWEN3_5_MOE, scheme, resolve_rules(scheme, find))


def reckoned(scheme: Scheme) -> float:
    """GB of the full-size model as reckoned apart from the planner."""
    return RECKONED[scheme.name] - (_MTP_EXPERTS if scheme.name in _WITH_MTP else 0)


def _row(scheme: Scheme, full: Path, rounds: int) -> bool:
    """Print one scheme's figures; whether size and time are within their limits."""
    planned, by_hand = plan_of(scheme, headers_of(FULL)).totals.bytes_out / 1e9, reckoned(scheme)
    runs = [measured(schemegen("plan", scheme.name, full), flush=False).seconds for _ in range(rounds)]
    seconds = statistics.median(runs)
    kept = abs(planned - by_hand) <= TOLERANCE and seconds <= _MOST_SECONDS
    figures = f"{planned:>6.2f} GB  reckoned {by_hand:>6.2f} GB  plan {seconds:5.2f} s"
    print(f"{'ok' if kept else 'MISSED':<7}{scheme.name:<24}{figures}", flush=True)
    return kept


if __name__ == "__main__":
    main()
