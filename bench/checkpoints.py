"""Deterministic qwen3_5_moe checkpoints in the Hub layout: `python -m bench.checkpoints NAME DIR`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from bench.configs import config, generation_config
from bench.layout import Dims, tensors
from bench.stream import split_evenly, write_json, write_weights

FULL_TENSORS, FULL_BYTES, FULL_SHARDS = 1045, 71_903_645_408, 26
SMALL = Dims(state_dtype="F32")
ATTENTION = Dims(heads=16, kv_heads=2, head=256, key_heads=16, value_heads=32)
WIDE = replace(ATTENTION, hidden=2048, intermediate=512, experts=256, layers=1, full_every=1)
FULL = replace(
    replace(WIDE, layers=40, full_every=4, vocab=248320),
    vision_depth=27,
    vision_hidden=1152,
    vision_intermediate=4304,
    positions=2304,
)
MEDIUM = Dims(hidden=1024, intermediate=256, experts=64, layers=3, full_every=2, heads=8, vocab=4096)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one named checkpoint is made of."""

    dims: Dims
    shards: int
    sparse: bool = False
    float_total: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.nbytes for t in tensors(self.dims))


RECIPES = {
    "wide-3g": Recipe(WIDE, 4),
    "wide-10g": Recipe(replace(WIDE, layers=5, full_every=4), 6),
    "medium": Recipe(MEDIUM, 4),
    "fused": Recipe(SMALL, 2),
    "one-by-one": Recipe(replace(SMALL, fused_trunk=False, fused_mtp=False), 3),
    "mixed-layout": Recipe(replace(SMALL, fused_mtp=False), 2),
    "f16": Recipe(replace(SMALL, dtype="F16", state_dtype=""), 2),
    "f32": Recipe(replace(SMALL, dtype="F32", state_dtype=""), 2),
    "sparse-full": Recipe(FULL, FULL_SHARDS, sparse=True, float_total=True),
}

NUMBERED = "big-shard-N (GB), wide-experts-N"


def recipe(name: str) -> Recipe:
    """The recipe of a name.

    `big-shard-N` is one shard of N GB of fused experts, without an MTP block; `wide-experts-N` is wide-3g of N experts.
    """
    if name.startswith("big-shard-"):
        return _big_shard(float(name.removeprefix("big-shard-")))
    if name.startswith("wide-experts-"):
        return Recipe(replace(WIDE, experts=int(name.removeprefix("wide-experts-"))), 4)
    if name not in RECIPES:
        raise SystemExit(f"no checkpoint named {name!r}; choose from {', '.join(sorted(RECIPES))}, {NUMBERED}")
    return RECIPES[name]


def _big_shard(gigabytes: float) -> Recipe:
    expert = 3 * WIDE.hidden * WIDE.intermediate * 2
    layers = max(1, round(gigabytes / 1.6))
    experts = round(gigabytes * 1e9 / layers / expert) - 10  # about ten experts' bytes go to the attention
    return Recipe(replace(WIDE, layers=layers, full_every=4, experts=experts, mtp=0), 1)


def build(name: str, folder: Path) -> None:
    """Make the checkpoint at `folder`, which must not exist: it appears complete or not at all."""
    if folder.exists():
        raise SystemExit(f"{folder} exists; remove it or name another folder")
    chosen, unfinished = recipe(name), folder.with_name(f"{folder.name}.building")
    if name == "sparse-full":
        check_full(chosen)
    unfinished.mkdir(parents=True)
    write_json(unfinished / "config.json", config(chosen.dims))
    write_json(unfinished / "generation_config.json", generation_config())
    runs = split_evenly(tensors(chosen.dims), chosen.shards)
    write_weights(unfinished, runs, sparse=chosen.sparse, float_total=chosen.float_total)
    unfinished.rename(folder)


def check_full(chosen: Recipe) -> None:
    """Hold the full-size recipe to the published index of Qwen3.6-35B-A3B; an AssertionError names the figure."""
    count, nbytes = sum(1 for _ in tensors(chosen.dims)), chosen.nbytes
    if (count, nbytes, chosen.shards) != (FULL_TENSORS, FULL_BYTES, FULL_SHARDS):
        raise AssertionError(f"the full model has {FULL_TENSORS} tensors, {FULL_BYTES} bytes: not {count}, {nbytes}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help=f"{', '.join(RECIPES)}, {NUMBERED}")
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    build(chosen.name, chosen.folder)


if __name__ == "__main__":
    main()
