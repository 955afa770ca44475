"""The quantization_config: Kimi's fields, the scheme's numbers, and an ignore list that engines' own matching takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from schemegen.architectures.base import Architecture, Role, TensorRule
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import block_faults, declaration_faults, declare
from schemegen.errors import PlanError, UnsupportedError
from schemegen.planner import Action, Plan

MakePlan = Callable[..., Plan]
LAYOUTS = [("fused", "fused"), ("separate", "separate"), ("fused", "separate"), ("separate", "fused")]
POLICIES: list[tuple[str, ...]] = [(), ("keep-mtp",)]
EXPERTS_ONLY = [
    r"re:.*shared_expert\..*",
    r"re:.*shared_expert_gate$",
    r"re:.*mlp\.gate$",
    r"re:.*self_attn\..*",
    r"re:.*linear_attn\..*",
    r"re:.*lm_head$",
    r"re:.*mtp\.fc$",
    r"re:.*visual\..*",
]
KEEP_MTP = [*EXPERTS_ONLY[:6], r"re:.*mtp\..*", r"re:.*visual\..*"]
FUSED = {
    "qkv_proj": ["q_proj", "k_proj", "v_proj"],
    "gate_up_proj": ["gate_proj", "up_proj"],
    "in_proj_qkvz": ["in_proj_qkv", "in_proj_z"],
    "in_proj_ba": ["in_proj_b", "in_proj_a"],
}


@pytest.mark.parametrize(("experts", "mtp_experts"), LAYOUTS)
@pytest.mark.parametrize(("policy", "golden"), [((), EXPERTS_ONLY), (("keep-mtp",), KEEP_MTP)])
def test_ignore_is_short_and_the_same_for_every_layout(
    make_plan: MakePlan, policy: tuple[str, ...], golden: list[str], experts: str, mtp_experts: str
) -> None:
    plan = make_plan(*policy, experts=experts, mtp_experts=mtp_experts)
    assert declare(plan, QWEN3_5_MOE)["ignore"] == golden


def test_the_block_has_kimis_fields_in_kimis_order(make_plan: MakePlan) -> None:
    block = declare(make_plan(), QWEN3_5_MOE)
    block["ignore"] = []
    assert json.dumps(block) == json.dumps(
        {
            "config_groups": {
                "group_0": {
                    "format": "pack-quantized",
                    "input_activations": None,
                    "output_activations": None,
                    "targets": ["Linear"],
                    "weights": {
                        "actorder": None,
                        "block_structure": None,
                        "dynamic": False,
                        "group_size": 32,
                        "num_bits": 4,
                        "observer": "minmax",
                        "observer_kwargs": {},
                        "strategy": "group",
                        "symmetric": True,
                        "type": "int",
                    },
                }
            },
            "format": "pack-quantized",
            "ignore": [],
            "kv_cache_scheme": None,
            "quant_method": "compressed-tensors",
            "quantization_status": "compressed",
        }
    )


def test_compressed_tensors_reads_the_block(make_plan: MakePlan) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    block = declare(make_plan(), QWEN3_5_MOE)
    config = quantization.QuantizationConfig.model_validate(block)
    group = config.config_groups["group_0"]
    assert (config.format, group.format, config.ignore) == ("pack-quantized", "pack-quantized", block["ignore"])
    assert group.weights.num_bits == 4
    assert group.weights.group_size == 32
    assert (group.weights.symmetric, group.weights.strategy, group.weights.type) == (True, "group", "int")
    dumped = json.loads(config.model_dump_json())["config_groups"]["group_0"]["weights"]
    assert {key: dumped[key] for key in block["config_groups"]["group_0"]["weights"]} == {
        **block["config_groups"]["group_0"]["weights"],
        "observer": dumped["observer"],
    }


def kept_and_quantized(plan: Plan) -> tuple[set[str], set[str]]:
    """Checkpoint names of the linear layers, read off the stored names alone; experts as engines look them up."""
    kept, quantized = set(), set()
    for tensor in plan.tensors:
        if tensor.action is Action.QUANTIZE:
            quantized |= {output.name.rpartition(".")[0] for output in tensor.outputs}
        elif found := re.fullmatch(r"(.*\.experts)\.(gate_up|down)_proj", tensor.name):
            kept |= {f"{found[1]}.0.{name}_proj" for name in found[2].split("_")}
        elif len(tensor.source.shape) == 2 and tensor.name.endswith(".weight") and "embed" not in tensor.name:
            kept.add(tensor.name.removesuffix(".weight"))
    return {name for name in kept if "norm" not in name}, quantized


def in_vllm(name: str) -> str:
    """A checkpoint name as vLLM's mapper for this family rewrites it."""
    name = re.sub(r"^model\.visual\.", "visual.", name)
    name = re.sub(r"^lm_head", "language_model.lm_head", name)
    return re.sub(r"^model\.language_model\.", "language_model.model.", name)


def with_fused(names: set[str]) -> Iterator[str]:
    """The names, and those of the layers that engines build from several of them."""
    yield from names
    for fused, members in FUSED.items():
        for member in members:
            yield from (name.removesuffix(member) + fused for name in names if name.endswith("." + member))


def is_hit(name: str, ignore: list[str]) -> bool:
    return any(re.match(entry.removeprefix("re:"), name) for entry in ignore)


@pytest.mark.parametrize(("experts", "mtp_experts"), LAYOUTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_engines_find_every_kept_layer_and_no_quantized_one(
    make_plan: MakePlan, policy: tuple[str, ...], experts: str, mtp_experts: str
) -> None:
    plan = make_plan(*policy, experts=experts, mtp_experts=mtp_experts)
    ignore = declare(plan, QWEN3_5_MOE)["ignore"]
    assert all(entry.startswith("re:.*") for entry in ignore)
    kept, quantized = kept_and_quantized(plan)
    assert {"lm_head", "mtp.fc", "model.visual.merger.linear_fc1"} <= kept
    assert any(name.startswith("mtp.layers.0.mlp.experts.0.") for name in (kept if policy else quantized))
    for spelled in (str, in_vllm):
        assert [name for name in map(spelled, with_fused(kept)) if not is_hit(name, ignore)] == []
        assert [name for name in map(spelled, with_fused(quantized)) if is_hit(name, ignore)] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_compressed_tensors_own_matching_agrees(make_plan: MakePlan, policy: tuple[str, ...]) -> None:
    match = pytest.importorskip("compressed_tensors.utils.match")
    linear = pytest.importorskip("torch").nn.Linear(1, 1)
    plan = make_plan(*policy)
    block = declare(plan, QWEN3_5_MOE)
    targets = block["config_groups"]["group_0"]["targets"]
    kept, quantized = kept_and_quantized(plan)
    for fused in (None, FUSED):
        for name in map(in_vllm, with_fused(kept)):
            assert not match.is_match(name, linear, targets, block["ignore"], fused=fused), name
        for name in map(in_vllm, quantized):
            assert match.is_match(name, linear, targets, block["ignore"], fused=fused), name


def test_kept_layers_get_entries_of_their_own_where_a_kind_is_split(make_plan: MakePlan) -> None:
    plan = make_plan({"role": "routed_expert", "layers": "0,2", "use": "keep"})
    ignore = declare(plan, QWEN3_5_MOE)["ignore"]
    for layer, kept in enumerate([True, False, True, False]):
        for prefix in ("model.language_model", "language_model.model"):
            assert is_hit(f"{prefix}.layers.{layer}.mlp.experts.0.gate_proj", ignore) is kept
    assert not is_hit("mtp.layers.0.mlp.experts.0.gate_proj", ignore)
    assert len(ignore) == len(EXPERTS_ONLY) + 2


def test_one_entry_names_a_kind_without_a_rule_of_its_own(make_plan: MakePlan) -> None:
    plan = make_plan({"role": "routed_expert", "part": "text", "use": "keep"})
    added = set(declare(plan, QWEN3_5_MOE)["ignore"]) - set(EXPERTS_ONLY)
    assert len(added) == 1
    assert is_hit("language_model.model.layers.3.mlp.experts.0.down_proj", list(added))
    assert not is_hit("mtp.layers.0.mlp.experts.0.down_proj", list(added))


def test_quantized_attention_is_not_ignored_and_its_gates_still_are(make_plan: MakePlan) -> None:
    plan = make_plan({"role": ["attention", "linear_attention"], "part": "text", "use": "default"})
    ignore = declare(plan, QWEN3_5_MOE)["ignore"]
    layer = "language_model.model.layers.0.linear_attn"
    assert not is_hit(f"{layer}.in_proj_qkvz", ignore)
    assert is_hit(f"{layer}.in_proj_ba", ignore)
    assert is_hit("mtp.layers.0.self_attn.qkv_proj", ignore)
    assert not is_hit("language_model.model.layers.3.self_attn.qkv_proj", ignore)


@pytest.mark.parametrize(
    ("rule", "layer"),
    [
        ({"role": "attention", "part": "text", "projection": "q", "use": "default"}, "self_attn.qkv_proj"),
        ({"role": "linear_attention", "projection": "z", "use": "default"}, "linear_attn.in_proj_qkvz"),
        ({"role": "shared_expert", "projection": "up", "use": "default"}, "shared_expert.gate_up_proj"),
        ({"role": "routed_expert", "projection": "down", "use": "keep"}, "mlp.experts"),
        ({"name": r"re:.*\.experts\.1\..*", "use": "keep"}, "mlp.experts"),
    ],
)
def test_a_layer_that_engines_build_as_one_is_not_split(make_plan: MakePlan, rule: dict[str, Any], layer: str) -> None:
    with pytest.raises(PlanError, match=re.escape(layer)):
        declare(make_plan(rule, experts="separate", mtp_experts="separate"), QWEN3_5_MOE)


@pytest.mark.parametrize("role", ["router", "mixer_gate", "fusion", "embedding"])
def test_what_engines_build_unquantized_is_refused(make_plan: MakePlan, role: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"test\[0\] quantizes .* no {role} quantized"):
        declare(make_plan({"role": role, "use": "default"}), QWEN3_5_MOE)


def test_a_quantized_head_is_targeted_by_name(make_plan: MakePlan) -> None:
    block = declare(make_plan({"role": "lm_head", "use": "default"}), QWEN3_5_MOE)
    targets = block["config_groups"]["group_0"]["targets"]
    assert targets[0] == "Linear"
    assert is_hit("language_model.lm_head", targets[1:])
    assert not is_hit("language_model.lm_head", block["ignore"])


def without_head(plan: Plan) -> Plan:
    """A plan of the same model, its head being the embedding again."""
    return replace(plan, tensors=tuple(tensor for tensor in plan.tensors if tensor.role is not Role.LM_HEAD))


def headless(ignore: str | None) -> Architecture:
    """An architecture with another ignore for the head, or with no rule for one."""
    rules = [rule for rule in QWEN3_5_MOE.rules if rule.role is not Role.LM_HEAD]
    head = TensorRule(r"lm_head\.weight", Role.LM_HEAD, ignore=ignore)
    return replace(QWEN3_5_MOE, rules=(*rules, *([] if ignore is None else [head])))


@pytest.mark.parametrize("ignore", [r"lm_head$", r".*head$", "elsewhere$", None])
def test_a_head_that_is_not_stored_is_kept_all_the_same(mixed_plan: MakePlan, ignore: str | None) -> None:
    """transformers builds it as nn.Linear, which the target `Linear` would take."""
    plan = mixed_plan({"role": "*", "part": "text", "use": "fp8"})
    with_head = declare(plan, QWEN3_5_MOE)
    found = declare(without_head(plan), headless(ignore))
    assert is_hit("lm_head", found["ignore"])
    assert is_hit("language_model.lm_head", found["ignore"])
    if ignore == r"lm_head$":
        assert found == with_head


MIX: list[dict[str, Any]] = [
    {"role": "routed_expert", "use": "int4"},
    {"role": ["attention", "shared_expert"], "part": "text", "use": "w8a8"},
    {"role": "lm_head", "use": "mxfp8"},
]


def test_one_group_a_format_each_with_its_own(mixed_plan: MakePlan) -> None:
    block = declare(mixed_plan(*MIX), QWEN3_5_MOE)
    assert block["format"] == "pack-quantized"
    groups = block["config_groups"]
    stored = {key: group["format"] for key, group in groups.items()}
    assert stored == {"group_0": "pack-quantized", "group_1": "int-quantized", "group_2": "mxfp8-quantized"}
    named = r"re:.*shared_expert\.(down_proj|gate_proj|gate_up_proj|up_proj)$"
    assert [group["targets"][0] for group in groups.values()] == ["Linear", named, "re:.*lm_head$"]
    assert groups["group_1"]["input_activations"]["strategy"] == "token"


def swapped(block: dict[str, Any]) -> None:
    groups = block["config_groups"]
    groups["group_0"], groups["group_1"] = groups["group_1"], groups["group_0"]


def reordered(block: dict[str, Any]) -> None:
    block["config_groups"] = dict(reversed(block["config_groups"].items()))


@pytest.mark.parametrize(
    ("change", "without_names"),
    [
        (swapped, True),
        (reordered, True),
        (lambda block: block["config_groups"].pop("group_2"), True),
        (lambda block: block["config_groups"].update(group_3=block["config_groups"]["group_2"]), True),
        (lambda block: block["config_groups"]["group_1"].update(format="pack-quantized"), True),
        (lambda block: block["config_groups"]["group_1"].update(input_activations=None), True),
        (lambda block: block["config_groups"]["group_1"]["targets"].pop(), False),
        (lambda block: block["config_groups"]["group_1"].pop("targets"), True),
        (lambda block: block["config_groups"].update(group_1=None), True),
    ],
)
def test_several_groups_are_held_to_the_plan(
    mixed_plan: MakePlan, change: Callable[[dict[str, Any]], None], without_names: bool
) -> None:
    plan = mixed_plan(*MIX)
    block = declare(plan, QWEN3_5_MOE)
    assert declaration_faults(block, plan, QWEN3_5_MOE) == declaration_faults(block, plan, None) == []
    change(block)
    assert declaration_faults(block, plan, QWEN3_5_MOE) == ["config_groups is not the plan's"]
    assert declaration_faults(block, plan, None) == (["config_groups is not the plan's"] if without_names else [])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"format": "int-quantized"}, "format"),
        ({"quant_method": "gptq"}, "quant_method"),
        ({"config_groups": {}}, "config_groups"),
        ({"ignore": EXPERTS_ONLY[:-1]}, "^ignore is not the plan's; it lacks re:.*visual[^;]*$"),
        ({"ignore": [*EXPERTS_ONLY, "re:.*mlp.*"]}, "^ignore is not the plan's; it has 1 more$"),
        ({"ignore": EXPERTS_ONLY[::-1]}, "^ignore is not the plan's$"),
        ({"ignore": ["re:(a*)*b"]}, "ignore is not the plan's; it lacks"),
        ({"ignore": None}, "^ignore is not the plan's$"),
        ({"kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme"),
        ({"quantization_status": "frozen"}, "quantization_status"),
        ({"sparsity_config": {}}, "sparsity_config is none of its keys"),
    ],
)
def test_a_stored_block_is_held_to_the_plan(make_plan: MakePlan, change: dict[str, Any], fault: str) -> None:
    plan = make_plan()
    block = declare(plan, QWEN3_5_MOE)
    assert declaration_faults(block, plan, QWEN3_5_MOE) == []
    (found,) = declaration_faults(block | change, plan, QWEN3_5_MOE)
    assert re.search(fault, found)


@pytest.mark.parametrize("architecture", [QWEN3_5_MOE, None])
def test_values_are_compared_as_they_are_spelled(make_plan: MakePlan, architecture: Architecture | None) -> None:
    plan = make_plan()
    text = json.dumps(declare(plan, QWEN3_5_MOE))
    for old, new in [('"symmetric": true', '"symmetric": 1'), ('"num_bits": 4', '"num_bits": 4.0')]:
        assert old in text
        assert declaration_faults(json.loads(text.replace(old, new)), plan, architecture) == [
            "config_groups is not the plan's"
        ]


def test_a_block_is_held_to_what_every_block_says(make_plan: MakePlan) -> None:
    block = declare(make_plan(), QWEN3_5_MOE)
    assert block_faults(block) == []
    assert block_faults({"a": 1, **block, "kv_cache_scheme": 0, "quantization_status": "frozen"}) == [
        "kv_cache_scheme is not the plan's",
        "quantization_status is not the plan's",
        "a is none of its keys; remove it",
    ]
    del block["format"], block["quant_method"]
    assert block_faults(block) == ["format is missing", "quant_method is missing"]
