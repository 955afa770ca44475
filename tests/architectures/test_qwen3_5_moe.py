"""Names of Qwen3.5 and Qwen3.6 get role, part and place; look-alikes do not."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.architectures.base import Part, Role
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.errors import CheckpointError, UnsupportedError

T = "model.language_model.layers.7."
M = "mtp.layers.0."
V = "model.visual.blocks.3."
BLOCK = [
    ("mlp.experts.gate_up_proj", Role.ROUTED_EXPERT, None),
    ("mlp.experts.down_proj", Role.ROUTED_EXPERT, None),
    ("mlp.experts.12.gate_proj.weight", Role.ROUTED_EXPERT, "gate"),
    ("mlp.experts.12.up_proj.weight", Role.ROUTED_EXPERT, "up"),
    ("mlp.experts.12.down_proj.weight", Role.ROUTED_EXPERT, "down"),
    ("mlp.gate.weight", Role.ROUTER, None),
    ("mlp.shared_expert.gate_proj.weight", Role.SHARED_EXPERT, "gate"),
    ("mlp.shared_expert.down_proj.weight", Role.SHARED_EXPERT, "down"),
    ("mlp.shared_expert_gate.weight", Role.SHARED_EXPERT_GATE, None),
    ("self_attn.q_proj.weight", Role.ATTENTION, "q"),
    ("self_attn.o_proj.weight", Role.ATTENTION, "o"),
    ("self_attn.q_norm.weight", Role.NORM, None),
    ("self_attn.k_norm.weight", Role.NORM, None),
    ("input_layernorm.weight", Role.NORM, None),
    ("post_attention_layernorm.weight", Role.NORM, None),
]
TRUNK = [
    ("linear_attn.in_proj_qkv.weight", Role.LINEAR_ATTENTION, "qkv"),
    ("linear_attn.in_proj_z.weight", Role.LINEAR_ATTENTION, "z"),
    ("linear_attn.out_proj.weight", Role.LINEAR_ATTENTION, "out"),
    ("linear_attn.in_proj_a.weight", Role.MIXER_GATE, "a"),
    ("linear_attn.in_proj_b.weight", Role.MIXER_GATE, "b"),
    ("linear_attn.conv1d.weight", Role.STATE, None),
    ("linear_attn.A_log", Role.STATE, None),
    ("linear_attn.dt_bias", Role.STATE, None),
    ("linear_attn.norm.weight", Role.NORM, None),
]
OTHERS = [
    ("model.language_model.embed_tokens.weight", Role.EMBEDDING, Part.TEXT),
    ("model.language_model.norm.weight", Role.NORM, Part.TEXT),
    ("lm_head.weight", Role.LM_HEAD, Part.TEXT),
    ("mtp.fc.weight", Role.FUSION, Part.MTP),
    ("mtp.norm.weight", Role.NORM, Part.MTP),
    ("mtp.pre_fc_norm_embedding.weight", Role.NORM, Part.MTP),
    ("mtp.pre_fc_norm_hidden.weight", Role.NORM, Part.MTP),
    ("model.visual.patch_embed.proj.weight", Role.EMBEDDING, Part.VISION),
    ("model.visual.patch_embed.proj.bias", Role.EMBEDDING, Part.VISION),
    ("model.visual.pos_embed.weight", Role.EMBEDDING, Part.VISION),
    (V + "norm1.bias", Role.NORM, Part.VISION),
    (V + "attn.qkv.weight", Role.ATTENTION, Part.VISION),
    (V + "attn.proj.bias", Role.ATTENTION, Part.VISION),
    (V + "mlp.linear_fc2.weight", Role.MLP, Part.VISION),
    ("model.visual.merger.norm.weight", Role.PROJECTOR, Part.VISION),
    ("model.visual.merger.linear_fc1.weight", Role.PROJECTOR, Part.VISION),
]


@pytest.mark.parametrize(
    ("name", "role", "part", "layer", "projection"),
    [(T + name, role, Part.TEXT, 7, projection) for name, role, projection in BLOCK + TRUNK]
    + [(M + name, role, Part.MTP, 0, projection) for name, role, projection in BLOCK],
)
def test_layer_names(name: str, role: Role, part: Part, layer: int, projection: str | None) -> None:
    found = QWEN3_5_MOE.identify(name)
    assert (found.role, found.part, found.layer, found.projection) == (role, part, layer, projection)


@pytest.mark.parametrize(("name", "role", "part"), OTHERS)
def test_names_outside_decoder_layers(name: str, role: Role, part: Part) -> None:
    found = QWEN3_5_MOE.identify(name)
    assert (found.role, found.part) == (role, part)


@pytest.mark.parametrize("prefix", [T, M])
def test_expert_layout_is_known_per_tensor(prefix: str) -> None:
    fused = QWEN3_5_MOE.identify(prefix + "mlp.experts.gate_up_proj")
    assert fused.experts is not None
    assert fused.experts.projections == ("gate", "up")
    assert fused.module == prefix + "mlp.experts"
    alone = QWEN3_5_MOE.identify(prefix + "mlp.experts.5.up_proj.weight")
    assert alone.experts is None
    assert alone.expert == 5


def test_fused_experts_are_named_expert_first() -> None:
    layout = QWEN3_5_MOE.identify(T + "mlp.experts.gate_up_proj").experts
    assert layout is not None
    assert layout.module_names("m.experts", 2) == [
        (0, "gate", "m.experts.0.gate_proj"),
        (0, "up", "m.experts.0.up_proj"),
        (1, "gate", "m.experts.1.gate_proj"),
        (1, "up", "m.experts.1.up_proj"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "weight",
        T + "mlp.gate_proj.weight",
        T + "mlp.gate_up_proj.weight",
        T + "mlp.experts.gate_up_proj.weight",
        T + "mlp.experts.gate_up_proj_bias",
        T + "mlp.experts.1.w1.weight",
        T + "mlp.experts.x.up_proj.weight",
        T + "mlp.experts.1.up_proj.weight_scale",
        T + "mlp.shared_expert_gate",
        T + "self_attn.q_proj.bias",
        T + "self_attn.qkv_proj.weight",
        T + "linear_attn.in_proj_ba.weight",
        T + "linear_attn.in_proj_ab.weight",
        "model.layers.7.mlp.gate.weight",
        "xmodel.language_model.layers.7.mlp.gate.weight",
        "mtp.fc.bias",
        "mtp.layers.0.linear_attn.A_log",
        "mtp.embed_tokens.weight",
        "model.visual.deepstack_merger_list.0.norm.weight",
        "model.audio.x.weight",
        "lm_head.bias",
        T + "mlp.gate.weight\n",
        T + "mlp.experts.03.up_proj.weight",
        T + "mlp.experts.\u0663.up_proj.weight",
        T + "mlp.experts.1000000.up_proj.weight",
        T + f"mlp.experts.{'9' * 5000}.up_proj.weight",
        "model.language_model.layers.07.mlp.gate.weight",
        "model.language_model.layers.\u0967.mlp.gate.weight",
        "mtp.layers.00.mlp.gate.weight",
        "model.visual.blocks.01.norm1.bias",
    ],
)
def test_unknown_names_are_errors_and_no_pattern_catches_all(name: str) -> None:
    with pytest.raises(UnsupportedError, match="unknown to architecture qwen3_5_moe"):
        QWEN3_5_MOE.identify(name)


@pytest.mark.parametrize(
    ("config", "head"),
    [
        ({}, True),
        ({"tie_word_embeddings": False, "text_config": {}}, True),
        ({"tie_word_embeddings": True}, False),
        ({"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}, False),
        ({"text_config": 5}, True),
    ],
)
def test_a_head_is_required_unless_it_is_tied(config: dict[str, Any], head: bool) -> None:
    required = QWEN3_5_MOE.required(config)
    assert ("lm_head.weight" in required) is head
    assert all(QWEN3_5_MOE.identify(name).layer is None for name in required)


@pytest.mark.parametrize("part", [Part.MTP, Part.VISION, Part.AUDIO])
def test_a_part_that_the_config_leaves_out_has_no_layers(part: Part) -> None:
    assert QWEN3_5_MOE.depth({"text_config": {"num_hidden_layers": 3}, "vision_config": None}, part) == 0


def test_the_depth_of_the_text_is_a_must() -> None:
    with pytest.raises(CheckpointError, match="num_hidden_layers is None"):
        QWEN3_5_MOE.depth({"text_config": {}}, Part.TEXT)


def test_no_pattern_has_an_open_end() -> None:
    for rule in QWEN3_5_MOE.rules:
        assert ".*" not in rule.pattern, rule.pattern
        assert ".+" not in rule.pattern, rule.pattern


def test_no_name_is_claimed_by_two_rules() -> None:
    import re

    names = [T + name for name, _, _ in BLOCK + TRUNK] + [M + name for name, _, _ in BLOCK] + [n for n, _, _ in OTHERS]
    for name in names:
        assert sum(re.fullmatch(rule.pattern, name) is not None for rule in QWEN3_5_MOE.rules) == 1, name
