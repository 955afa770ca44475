"""The modules that engines look up, in every spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import schemegen
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import engine_modules, first_expert, spellings
from schemegen.planner import Plan

MakePlan = Callable[..., Plan]
ATTENTION = "model.language_model.layers.3.self_attn"
LINEAR = "model.language_model.layers.0.linear_attn"
MLP = "model.language_model.layers.0.mlp"


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("model.language_model.layers.0.mlp.gate", "language_model.model.layers.0.mlp.gate"),
        ("model.visual.blocks.0.attn.qkv", "visual.blocks.0.attn.qkv"),
        ("lm_head", "language_model.lm_head"),
    ],
)
def test_prefixes_that_vllm_rewrites(name: str, spelled: str) -> None:
    assert spellings(name, QWEN3_5_MOE.renames) == (name, spelled)


def test_a_name_that_stays_has_one_spelling() -> None:
    assert spellings("mtp.fc", QWEN3_5_MOE.renames) == ("mtp.fc",)


def test_fusions_and_renames_are_the_architectures_own(make_plan: MakePlan) -> None:
    bare = replace(QWEN3_5_MOE, fusions={"pair": ("k_proj", "v_proj")}, renames=(("mtp.", "draft."),))
    plan = replace(make_plan(), fusions=bare.fusions)
    modules = {module.name: module for module in engine_modules(plan, bare)}
    assert modules["mtp.layers.0.self_attn.pair"].names == (
        "mtp.layers.0.self_attn.pair",
        "draft.layers.0.self_attn.pair",
    )
    assert "mtp.layers.0.self_attn.qkv_proj" not in modules
    assert modules["lm_head"].names == ("lm_head",)
    assert modules["mtp.layers.0.mlp.experts.0.up_proj"].place[1] == "draft.layers.0.mlp.experts"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("m.layers.12.mlp.experts.37.gate_proj", "m.layers.12.mlp.experts.0.gate_proj"),
        ("m.layers.12.mlp.experts.37", "m.layers.12.mlp.experts.0"),
        ("m.layers.12.mlp.shared_experts.up_proj", "m.layers.12.mlp.shared_experts.up_proj"),
    ],
)
def test_engines_ask_for_the_first_expert(name: str, first: str) -> None:
    assert first_expert(name) == first


@pytest.mark.parametrize("policy", [(), ("keep-mtp",)])
def test_both_layouts_give_the_same_modules(make_plan: MakePlan, policy: tuple[str, ...]) -> None:
    fused = engine_modules(make_plan(*policy), QWEN3_5_MOE)
    separate = engine_modules(make_plan(*policy, experts="separate", mtp_experts="separate"), QWEN3_5_MOE)
    assert {(m.name, m.scope, m.format) for m in fused} == {(m.name, m.scope, m.format) for m in separate}


def test_experts_stand_for_their_container_and_layers_for_what_they_are_fused_into(make_plan: MakePlan) -> None:
    modules = {module.name: module for module in engine_modules(make_plan(), QWEN3_5_MOE)}
    experts = "mtp.layers.0.mlp.experts"
    assert {modules[f"{experts}.0.{name}_proj"].scope for name in ("gate", "up", "down")} == {experts}
    assert modules[experts].format == "int4"
    assert modules["mtp.layers.0.self_attn.qkv_proj"].format is None
    assert "model.language_model.embed_tokens" not in modules
    assert "model.language_model.layers.0.linear_attn.conv1d" not in modules


#: Layers that engines build from several matrices: rules that split one, its name, and what becomes of its matrices.
SPLITS = [
    (
        "fused",
        {"role": "attention", "part": "text", "projection": "q", "use": "default"},
        f"{ATTENTION}.qkv_proj",
        "k_proj kept, q_proj int4, v_proj kept; give all its matrices one format, or keep them all",
    ),
    (
        "fused",
        {"role": "shared_expert", "part": "text", "layers": "0", "projection": "gate", "use": "default"},
        f"{MLP}.shared_expert.gate_up_proj",
        "gate_proj int4, up_proj kept; give all its matrices one format, or keep them all",
    ),
    (
        "fused",
        {"role": "linear_attention", "layers": "0", "projection": "qkv", "use": "default"},
        f"{LINEAR}.in_proj_qkvz",
        "in_proj_qkv int4, in_proj_z kept; give all its matrices one format, or keep them all",
    ),
    (
        "fused",
        {"role": "mixer_gate", "layers": "0", "projection": "b", "use": "default"},
        f"{LINEAR}.in_proj_ba",
        "in_proj_a kept, in_proj_b int4; keep them all",
    ),
    (
        "fused",
        {"name": r"re:.*language_model\.layers\.0\.mlp\.experts\.down_proj", "use": "keep"},
        f"{MLP}.experts",
        "experts.down_proj kept, experts.gate_up_proj int4; give all its matrices one format, or keep them all",
    ),
    (
        "fused",
        {"role": "routed_expert", "part": "text", "layers": "0", "projection": "up", "use": "keep"},
        f"{MLP}.experts",
        "experts.down_proj int4, experts.gate_up_proj kept; give all its matrices one format, or keep them all",
    ),
    (
        "separate",
        {"name": r"re:.*language_model\.layers\.0\.mlp\.experts\.2\.", "use": "keep"},
        f"{MLP}.experts",
        "experts.0.down_proj int4, experts.0.gate_proj int4, experts.0.up_proj int4, experts.2.down_proj kept "
        "and 20 more; give all its matrices one format, or keep them all",
    ),
    (
        "separate",
        {"role": "routed_expert", "part": "text", "layers": "0", "projection": "up", "use": "keep"},
        f"{MLP}.experts",
        "experts.0.down_proj int4, experts.0.gate_proj int4, experts.0.up_proj kept, experts.1.down_proj int4 "
        "and 20 more; give all its matrices one format, or keep them all",
    ),
]


@pytest.mark.parametrize(("experts", "rule", "layer", "fates"), SPLITS)
def test_a_policy_file_that_splits_a_layer_is_refused_with_its_matrices(
    sample_of: Callable[..., Path], tmp_path: Path, experts: str, rule: dict[str, str], layer: str, fates: str
) -> None:
    policy = {"schema_version": 1, "name": "odd", "summary": "it splits a layer", "rules": [rule]}
    path = tmp_path / "odd.yaml"
    path.write_text(json.dumps(policy))
    told = re.escape(f"engines build {layer} as one layer, in one format, but the policy splits it: {fates}")
    with pytest.raises(schemegen.PlanError, match=f"^{told}$"):
        schemegen.plan("kimi-k2-int4", sample_of(experts, experts), policies=[path])


def test_of_many_matrices_each_fate_has_one(mixed_plan: MakePlan) -> None:
    last = {"name": r"re:.*language_model\.layers\.0\.mlp\.experts\.7\.up_proj", "use": "int8"}
    plan = mixed_plan(last, {"role": "routed_expert", "use": "int4"}, experts="separate")
    with pytest.raises(schemegen.PlanError, match=r"experts\.7\.up_proj int8 and 20 more; give"):
        engine_modules(plan, QWEN3_5_MOE)
