"""The modules that engines look up, in every spelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import engine_modules, first_expert, spellings
from schemegen.planner import Plan

MakePlan = Callable[..., Plan]


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
