"""The sample's names, shapes and shards are those of the real release."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import TensorHeader
from schemegen.checkpoint.sample import write_sample
from schemegen.checkpoint.sample_tensors import ExpertsAs

LAYER = {"input_layernorm.weight", "post_attention_layernorm.weight"}
MIXTURE = {
    "mlp.gate.weight",
    "mlp.shared_expert.gate_proj.weight",
    "mlp.shared_expert.up_proj.weight",
    "mlp.shared_expert.down_proj.weight",
    "mlp.shared_expert_gate.weight",
}
FUSED = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}
SEPARATE = {f"mlp.experts.E.{part}_proj.weight" for part in ("gate", "up", "down")}
FULL = {f"self_attn.{part}_proj.weight" for part in "qkvo"} | {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}
LINEAR = {f"linear_attn.in_proj_{part}.weight" for part in ("qkv", "z", "b", "a")} | {
    "linear_attn.out_proj.weight",
    "linear_attn.conv1d.weight",
    "linear_attn.norm.weight",
    "linear_attn.A_log",
    "linear_attn.dt_bias",
}


@pytest.fixture(scope="module")
def tensors(sample_folder: Path) -> dict[str, TensorHeader]:
    """The sample's tensors by name."""
    return {tensor.name: tensor for tensor in open_local(sample_folder).tensors}


def below(names: set[str], prefix: str) -> set[str]:
    """Names below a prefix without it, experts' numbers as E."""
    return {re.sub(r"experts\.\d+", "experts.E", name[len(prefix) :]) for name in names if name.startswith(prefix)}


def test_the_names_are_the_real_ones(tensors: dict[str, TensorHeader]) -> None:
    names = set(tensors)
    for layer in range(3):
        assert below(names, f"model.language_model.layers.{layer}.") == LAYER | MIXTURE | FUSED | LINEAR
    assert below(names, "model.language_model.layers.3.") == LAYER | MIXTURE | FUSED | FULL
    assert below(names, "mtp.layers.0.") == LAYER | MIXTURE | FUSED | FULL
    assert {name for name in names if not re.search(r"\.(layers|blocks)\.\d", name)} == {
        "lm_head.weight",
        "model.language_model.embed_tokens.weight",
        "model.language_model.norm.weight",
        "model.visual.patch_embed.proj.weight",
        "model.visual.patch_embed.proj.bias",
        "model.visual.pos_embed.weight",
        *(f"model.visual.merger.{m}.{v}" for m in ("norm", "linear_fc1", "linear_fc2") for v in ("weight", "bias")),
        *(f"mtp.{name}.weight" for name in ("fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")),
    }
    modules = {"norm1", "norm2", "attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2"}
    for block in range(2):
        assert below(names, f"model.visual.blocks.{block}.") == {
            f"{m}.{v}" for m in modules for v in ("weight", "bias")
        }


def test_shapes_follow_the_config(tensors: dict[str, TensorHeader], sample_folder: Path) -> None:
    config = json.loads((sample_folder / "config.json").read_text())
    text, vision = config["text_config"], config["vision_config"]
    hidden, width, experts = text["hidden_size"], text["moe_intermediate_size"], text["num_experts"]
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
    layer = "model.language_model.layers"
    expected = {
        "lm_head.weight": (text["vocab_size"], hidden),
        "mtp.fc.weight": (hidden, 2 * hidden),
        "mtp.layers.0.mlp.experts.gate_up_proj": (experts, 2 * width, hidden),
        f"{layer}.0.mlp.experts.down_proj": (experts, hidden, width),
        f"{layer}.0.linear_attn.in_proj_qkv.weight": (2 * keys + values, hidden),
        f"{layer}.0.linear_attn.conv1d.weight": (2 * keys + values, 1, text["linear_conv_kernel_dim"]),
        f"{layer}.0.linear_attn.in_proj_a.weight": (text["linear_num_value_heads"], hidden),
        f"{layer}.3.self_attn.q_proj.weight": (2 * text["num_attention_heads"] * text["head_dim"], hidden),
        f"{layer}.3.self_attn.k_proj.weight": (text["num_key_value_heads"] * text["head_dim"], hidden),
        "model.visual.blocks.1.mlp.linear_fc2.weight": (vision["hidden_size"], vision["intermediate_size"]),
        "model.visual.merger.linear_fc2.weight": (hidden, vision["hidden_size"] * vision["spatial_merge_size"] ** 2),
    }
    assert {name: tensors[name].shape for name in expected} == expected


def test_a_swap_of_rows_and_columns_would_show(tensors: dict[str, TensorHeader]) -> None:
    for name in FUSED:
        _, rows, columns = tensors[f"mtp.layers.0.{name}"].shape
        assert rows != columns
        assert rows % 32 == columns % 32 == 0


def test_the_vision_tower_has_a_width_that_no_group_divides(tensors: dict[str, TensorHeader]) -> None:
    assert tensors["model.visual.blocks.0.mlp.linear_fc2.weight"].shape[1] % 32


def test_shards_part_a_layer_and_hold_the_mtp_block_last(tensors: dict[str, TensorHeader]) -> None:
    shard = {name: int(tensor.shard.split("-")[1]) for name, tensor in tensors.items()}
    assert set(shard.values()) == {1, 2, 3}
    assert {number for name, number in shard.items() if name.startswith("mtp.")} == {3}
    layer = "model.language_model.layers.1.mlp.experts"
    assert (shard[f"{layer}.gate_up_proj"], shard[f"{layer}.down_proj"]) == (1, 2)
    assert {number for name, number in shard.items() if name.startswith("model.visual.")} == {2, 3}


@pytest.mark.parametrize(("experts", "trunk"), [("fused", FUSED), ("separate", SEPARATE)])
@pytest.mark.parametrize(("mtp_experts", "mtp"), [("fused", FUSED), ("separate", SEPARATE)])
def test_trunk_and_mtp_block_lay_out_their_experts_apart(
    tmp_path: Path, experts: ExpertsAs, trunk: set[str], mtp_experts: ExpertsAs, mtp: set[str]
) -> None:
    write_sample("qwen3.6-moe", tmp_path, experts=experts, mtp_experts=mtp_experts)
    names = {tensor.name for tensor in open_local(tmp_path).tensors}
    assert below(names, "model.language_model.layers.2.") == LAYER | MIXTURE | trunk | LINEAR
    assert below(names, "mtp.layers.0.") == LAYER | MIXTURE | mtp | FULL


def test_the_mtp_block_follows_the_trunk_by_default(tmp_path: Path) -> None:
    write_sample("qwen3.6-moe", tmp_path, experts="separate")
    names = {tensor.name for tensor in open_local(tmp_path).tensors}
    assert below(names, "mtp.layers.0.") == LAYER | MIXTURE | SEPARATE | FULL
