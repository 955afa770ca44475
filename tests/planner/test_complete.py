"""Half a model is no model: layers, experts and projections that the config promises are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schemegen.architectures.base import Architecture
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.model import Checkpoint
from schemegen.data import schemes_folder
from schemegen.errors import CheckpointError, PlanError
from schemegen.loader import load_policies, load_scheme
from schemegen.planner import Plan, make_plan, resolve_rules

HeadersOnly = Callable[..., Checkpoint]
Tensors = dict[str, tuple[str, tuple[int, ...], str]]
TEXT, MTP, VISION = "model.language_model.layers.", "mtp.layers.", "model.visual.blocks."
TEXT_CONFIG = {
    "hidden_size": 64,
    "moe_intermediate_size": 32,
    "num_experts": 2,
    "num_hidden_layers": 1,
    "mtp_num_hidden_layers": 1,
}
# A part of a model is enough here.
ARCHITECTURE = replace(QWEN3_5_MOE, required=lambda config: ())
KIMI = load_scheme(schemes_folder() / "kimi-k2-int4.yaml")
POLICIES = {policy.name: policy for policy in load_policies(schemes_folder() / "policies")}


def planned(checkpoint: Checkpoint, architecture: Architecture = ARCHITECTURE) -> Plan:
    return make_plan(checkpoint, architecture, KIMI, resolve_rules(KIMI, POLICIES.__getitem__))


def config(**text: Any) -> dict[str, Any]:
    return {"model_type": "qwen3_5_moe", "text_config": TEXT_CONFIG | text, "vision_config": {"depth": 3}}


def faults(checkpoint: Checkpoint) -> list[str]:
    with pytest.raises(PlanError) as caught:
        planned(checkpoint)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_missing_text_layers_are_named(headers_only: HeadersOnly, toy: Tensors) -> None:
    toy[f"{TEXT}2.input_layernorm.weight"] = ("BF16", (64,), "a.safetensors")
    assert faults(headers_only(toy, config(num_hidden_layers=4))) == [
        "part text lacks layer 1, 3 of the 4 that the config promises"
    ]


def test_a_text_without_a_layer_is_refused(headers_only: HeadersOnly, toy: Tensors) -> None:
    mtp = {name: value for name, value in toy.items() if name.startswith("mtp.")}
    assert faults(headers_only(mtp)) == ["part text lacks layer 0 of the 1 that the config promises"]


def test_a_part_that_is_there_has_all_its_layers(headers_only: HeadersOnly, toy: Tensors) -> None:
    toy[f"{VISION}1.norm1.weight"] = ("BF16", (64,), "a.safetensors")
    assert faults(headers_only(toy, config(mtp_num_hidden_layers=2))) == [
        "part mtp lacks layer 1 of the 2 that the config promises",
        "part vision lacks layer 0, 2 of the 3 that the config promises",
    ]


def test_a_part_that_is_not_there_may_be_missing(headers_only: HeadersOnly, toy: Tensors) -> None:
    text = {name: value for name, value in toy.items() if name.startswith(TEXT)}
    assert len(planned(headers_only(text)).tensors) == len(text)


@pytest.mark.parametrize(
    ("missing", "projections"), [("gate_up_proj", ["gate", "up"]), ("down_proj", ["down"])], ids=["gate_up", "down"]
)
def test_half_of_the_fused_experts_is_refused(
    headers_only: HeadersOnly, toy: Tensors, missing: str, projections: list[str]
) -> None:
    for prefix, where in ((TEXT, "text layer 0"), (MTP, "mtp layer 0")):
        rest = {name: value for name, value in toy.items() if name != f"{prefix}0.mlp.experts.{missing}"}
        assert faults(headers_only(rest)) == [f"{where}: no expert has a {name} projection" for name in projections]


@pytest.mark.parametrize("missing", ["gate", "up", "down"])
def test_a_projection_that_no_expert_has_is_refused(
    headers_only: HeadersOnly, one_by_one: Tensors, missing: str
) -> None:
    rest = {name: value for name, value in one_by_one.items() if f".{missing}_proj" not in name}
    assert faults(headers_only(rest)) == [f"text layer 0: no expert has a {missing} projection"]


def test_a_router_needs_experts(headers_only: HeadersOnly, toy: Tensors) -> None:
    toy[f"{TEXT}1.mlp.gate.weight"] = ("BF16", (2, 64), "a.safetensors")
    assert faults(headers_only(toy, config(num_hidden_layers=2))) == ["text layer 1 has a router and no routed experts"]


def test_any_number_may_be_promised(headers_only: HeadersOnly, one_by_one: Tensors) -> None:
    promised = config(num_experts=10**9, num_hidden_layers=10**12)
    assert faults(headers_only(one_by_one, promised)) == [
        "part text lacks layer 1, 2, 3 and 999999999996 more of the 1000000000000 that the config promises",
        "text layer 0 lacks the down projection of expert 2, 3, 4 and 999999995 more",
        "text layer 0 lacks the gate projection of expert 2, 3, 4 and 999999995 more",
        "text layer 0 lacks the up projection of expert 2, 3, 4 and 999999995 more",
    ]


@pytest.mark.parametrize("key", ["num_experts", "moe_intermediate_size", "hidden_size"])
def test_a_size_of_zero_is_refused(headers_only: HeadersOnly, toy: Tensors, one_by_one: Tensors, key: str) -> None:
    with pytest.raises(CheckpointError, match=f"text_config.{key} is 0; .* at least 1"):
        planned(headers_only(toy, config(**{key: 0})))


@pytest.mark.parametrize("shape", [(0, 64), (32, 0)])
def test_empty_matrices_are_refused(headers_only: HeadersOnly, one_by_one: Tensors, shape: tuple[int, int]) -> None:
    for name in one_by_one:
        if "gate_proj" in name or "up_proj" in name:
            one_by_one[name] = ("BF16", shape, "a.safetensors")
    with pytest.raises(PlanError, match="is empty"):
        planned(headers_only(one_by_one))


def test_a_text_model_may_say_nothing_of_other_parts(headers_only: HeadersOnly, one_by_one: Tensors) -> None:
    text = {key: value for key, value in TEXT_CONFIG.items() if not key.startswith("mtp")}
    silent = {"model_type": "qwen3_5_moe", "text_config": text}
    assert planned(headers_only(one_by_one, silent)).notes == ()
    one_by_one[f"{MTP}0.mlp.gate.weight"] = ("BF16", (2, 64), "a.safetensors")
    assert "the config promises 0 layers in part mtp" in faults(headers_only(one_by_one, silent))[0]


@pytest.mark.parametrize(("tied", "heads"), [({}, 1), ({"tie_word_embeddings": True}, 0)])
def test_required_tensors_are_there(headers_only: HeadersOnly, toy: Tensors, tied: dict[str, bool], heads: int) -> None:
    with pytest.raises(PlanError) as caught:
        planned(headers_only(toy, config() | tied), QWEN3_5_MOE)
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        "tensor model.language_model.embed_tokens.weight is missing",
        "tensor model.language_model.norm.weight is missing",
        *["tensor lm_head.weight is missing"] * heads,
    ]
