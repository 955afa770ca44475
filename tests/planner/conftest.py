"""Checkpoints that exist as headers only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest

from schemegen.checkpoint.model import Checkpoint, Shard, TensorHeader

BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8}
HIDDEN, INTERMEDIATE, EXPERTS = 64, 32, 2
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_5_moe",
    "text_config": {
        "hidden_size": HIDDEN,
        "moe_intermediate_size": INTERMEDIATE,
        "num_experts": EXPERTS,
        "num_hidden_layers": 1,
        "mtp_num_hidden_layers": 1,
    },
    "vision_config": {"depth": 1},
}
TEXT, MTP = "model.language_model.layers.0.", "mtp.layers.0."
Tensors = Mapping[str, tuple[int, ...] | tuple[str, tuple[int, ...]] | tuple[str, tuple[int, ...], str]]

HeadersOnly = Callable[..., Checkpoint]


@pytest.fixture
def headers_only() -> HeadersOnly:
    """A factory: {name: (dtype, shape, shard)} → Checkpoint, tensors in the given order, no file behind it."""

    def make(tensors: Mapping[str, tuple[str, tuple[int, ...], str]], config: Mapping[str, Any] = CONFIG) -> Checkpoint:
        ends: dict[str, int] = {}
        headers = []
        for name, (dtype, shape, shard) in tensors.items():
            start, nbytes = ends.get(shard, 1000), prod(shape) * BYTES[dtype]
            headers.append(TensorHeader(name, dtype, shape, shard, start, nbytes))
            ends[shard] = start + nbytes
        shards = tuple(Shard(name, end, 0, "") for name, end in ends.items())
        return Checkpoint(
            Path("nowhere"), "toy", None, config, json.dumps(config), "index", {}, shards, tuple(headers), (), ()
        )

    return make


@pytest.fixture
def toy() -> dict[str, tuple[str, tuple[int, ...], str]]:
    """A trunk layer and an MTP layer with fused experts, a router and a norm, in two shards."""
    return {
        TEXT + "input_layernorm.weight": ("BF16", (HIDDEN,), "a.safetensors"),
        TEXT + "mlp.experts.gate_up_proj": ("BF16", (EXPERTS, 2 * INTERMEDIATE, HIDDEN), "a.safetensors"),
        TEXT + "mlp.experts.down_proj": ("BF16", (EXPERTS, HIDDEN, INTERMEDIATE), "b.safetensors"),
        TEXT + "mlp.gate.weight": ("BF16", (EXPERTS, HIDDEN), "b.safetensors"),
        TEXT + "self_attn.q_proj.weight": ("BF16", (HIDDEN, HIDDEN), "b.safetensors"),
        MTP + "mlp.experts.gate_up_proj": ("BF16", (EXPERTS, 2 * INTERMEDIATE, HIDDEN), "b.safetensors"),
        MTP + "mlp.experts.down_proj": ("BF16", (EXPERTS, HIDDEN, INTERMEDIATE), "b.safetensors"),
        "mtp.fc.weight": ("BF16", (HIDDEN, 2 * HIDDEN), "b.safetensors"),
    }


@pytest.fixture
def one_by_one() -> dict[str, tuple[str, tuple[int, ...], str]]:
    """The trunk layer's experts, stored one by one."""
    shapes = {"gate": (INTERMEDIATE, HIDDEN), "up": (INTERMEDIATE, HIDDEN), "down": (HIDDEN, INTERMEDIATE)}
    return {
        f"{TEXT}mlp.experts.{expert}.{projection}_proj.weight": ("BF16", shape, "a.safetensors")
        for expert in range(EXPERTS)
        for projection, shape in shapes.items()
    }
