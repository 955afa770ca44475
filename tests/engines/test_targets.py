"""Groups and their targets: whichever way an engine looks a module up, it finds the format that the plan has for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import declare
from schemegen.engines.targets import check_targets, formats_in_order
from schemegen.errors import PlanError
from schemegen.formats import storage_of
from schemegen.planner import Plan

MakePlan = Callable[..., Plan]
Block = dict[str, Any]
FUSED = {
    "qkv_proj": ["q_proj", "k_proj", "v_proj"],
    "gate_up_proj": ["gate_proj", "up_proj"],
    "in_proj_qkvz": ["in_proj_qkv", "in_proj_z"],
    "in_proj_ba": ["in_proj_b", "in_proj_a"],
}
EXPERTS = {"role": "routed_expert", "use": "int4"}
REST = ["attention", "linear_attention", "shared_expert"]
MIXES: list[list[dict[str, Any]]] = [
    [EXPERTS, {"role": REST, "use": "int8"}],
    [{"part": "mtp", "use": "keep"}, {"role": "routed_expert", "use": "nvfp4"}, {"role": REST, "use": "fp8"}],
    [{"role": "routed_expert", "part": "mtp", "use": "fp8"}, EXPERTS, {"role": "lm_head", "use": "int8"}],
    [{"role": "routed_expert", "layers": "0,-1", "use": "int8"}, EXPERTS, {"role": "attention", "use": "mxfp8"}],
    [{"role": ["attention", "mlp", "projector"], "part": "vision", "use": "fp8"}, EXPERTS],
    [{"role": "attention", "part": "text", "use": "fp8"}, {"role": "linear_attention", "use": "int8"}],
    [{"role": "shared_expert", "layers": "1", "use": "int4"}, {"role": "shared_expert", "use": "int8"}],
    [{"role": "lm_head", "use": "fp8"}, {"role": "attention", "part": "mtp", "use": "int8"}],
]


def entry_hits(name: str, entry: str) -> bool:
    return bool(re.match(entry[3:], name)) if entry.startswith("re:") else entry == name


def is_hit(name: str, entries: list[str]) -> bool:
    return any(entry_hits(name, entry) for entry in entries)


def members_of(name: str) -> list[str]:
    parent, _, last = name.rpartition(".")
    return [f"{parent}.{member}" for member in FUSED.get(last, [])]


def pairs(block: Block) -> list[tuple[str, str]]:
    """Every target with its group, in order."""
    return [(target, key) for key, group in block["config_groups"].items() for target in group["targets"]]


def in_vllm(name: str, kind: str, block: Block) -> str | None:
    """The group that vLLM 0.32 finds: by name, by the members of a fused layer, by class."""
    members = members_of(name)
    ignored = [is_hit(member, block["ignore"]) for member in members or [name]]
    assert len(set(ignored)) == 1, f"vLLM raises for {name}"
    if is_hit(name, block["ignore"]) or ignored[0]:
        return None
    found = [key for target, key in pairs(block) if entry_hits(name, target)]
    if members and not found:
        firsts = [next((key for t, key in pairs(block) if entry_hits(member, t)), None) for member in members]
        found = [key for key in firsts[:1] if key and all(firsts)]
    by_class = [key for target, key in pairs(block) if target.lower() in kind.lower()]
    by_class += [key for target, key in pairs(block) if target == "Linear" and kind == "RoutedExperts"]
    return next(iter([*found, *by_class]), None)


def in_sglang(name: str, kind: str, block: Block) -> str | None:
    """The group that SGLang 0.5.23 finds: by name, by class, by members; it raises for what it finds nowhere."""
    members = members_of(name)
    ignored = [is_hit(member, block["ignore"]) for member in members or [name]]
    assert len(set(ignored)) == 1, f"SGLang raises for {name}"
    if ignored[0]:
        return None
    found = [key for target, key in pairs(block) if entry_hits(name, target)]
    if kind == "ParallelLMHead":
        return next(iter(found), None)
    found += [key for target, key in pairs(block) if target.lower() in kind.lower()]
    found += [key for target, key in pairs(block) if target == "Linear" and kind == "FusedMoE"]
    assert found, f"SGLang raises for {name}"
    return found[0]


def in_compressed_tensors(name: str, kind: str, block: Block) -> str | None:
    """The group that compressed-tensors 0.19 finds: names, then patterns sorted as text, then classes."""
    if is_hit(name, block["ignore"]):
        return None
    order = sorted(pairs(block), key=lambda pair: ("re:" in pair[0], pair[0]))
    found = [key for target, key in order if entry_hits(name, target)]
    return next(iter([*found, *(key for target, key in order if target == "Linear")]), None)


def modules_of(plan: Plan) -> Iterator[tuple[str, str, str | None]]:
    """The linear layers by the checkpoint's names, read off the stored ones alone: name, class, format."""
    for tensor in plan.tensors:
        name, _, last = tensor.name.rpartition(".")
        if found := re.fullmatch(r"(.*\.experts)\.(?:(?:gate_up|down)_proj|(\d+)\.\w+\.weight)", tensor.name):
            if found[2] in (None, "0"):
                yield from ((f"{found[1]}.0.{proj}_proj", "experts", tensor.format) for proj in ("gate", "up", "down"))
        elif last == "weight" and len(tensor.source.shape) == 2 and "embed" not in name and "norm" not in name:
            yield name, "head" if name == "lm_head" else "linear", tensor.format


def renamed(name: str) -> str:
    """A checkpoint name as vLLM's mapper for this family rewrites it."""
    name = re.sub(r"^model\.visual\.", "visual.", name)
    name = re.sub(r"^lm_head", "language_model.lm_head", name)
    return re.sub(r"^model\.language_model\.", "language_model.model.", name)


def fused(modules: Iterator[tuple[str, str, str | None]]) -> Iterator[tuple[str, str, str | None]]:
    """The modules with members of fused layers replaced by these."""
    layers = {member: layer for layer, members in FUSED.items() for member in members}
    for name, kind, format in modules:
        parent, _, last = name.rpartition(".")
        is_member = kind == "linear" and last in layers
        yield (f"{parent}.{layers[last]}" if is_member else name), kind, format


VLLM = {"experts": "RoutedExperts", "head": "ParallelLMHead", "linear": "MergedColumnParallelLinear"}
SGLANG = {"experts": "FusedMoE", "head": "ParallelLMHead", "linear": "QKVParallelLinear"}


def answers(plan: Plan, block: Block) -> Iterator[tuple[str, str, str | None, str | None]]:
    """What every engine says of every module: engine, name, the group found, the format planned."""
    for name, kind, format in fused(modules_of(plan)):
        yield "vLLM", name, in_vllm(renamed(name), VLLM[kind], block), format
        yield "vLLM drafter", name, in_vllm(name, VLLM[kind], block), format
        yield "SGLang", name, in_sglang(name, SGLANG[kind], block), format
    for name, kind, format in modules_of(plan):
        yield "compressed-tensors", name, in_compressed_tensors(name, kind, block), format


def check_all(plan: Plan, block: Block) -> None:
    """Every engine finds for every module the group that declares its format."""
    order = formats_in_order(plan)
    assert list(block["config_groups"]) == [f"group_{number}" for number in range(len(order))]
    planned = {name: f"group_{number}" for number, name in enumerate(order)}
    for engine, name, found, format in answers(plan, block):
        assert found == planned.get(format or ""), (engine, name, format)
    for name, key in planned.items():
        declared, group = plan.scheme.formats[name], block["config_groups"][key]
        assert group["format"] == storage_of(declared)
        assert group["weights"]["num_bits"] == declared.weights.num_bits


@pytest.mark.parametrize("experts", ["fused", "separate"])
@pytest.mark.parametrize("rules", MIXES, ids=range(len(MIXES)))
def test_every_engine_finds_the_planned_format(mixed_plan: MakePlan, rules: list[dict[str, Any]], experts: str) -> None:
    plan = mixed_plan(*rules, experts=experts, mtp_experts=experts)
    block = declare(plan, QWEN3_5_MOE)
    assert len(block["config_groups"]) > 1
    check_all(plan, block)


ROLES = ("routed_expert", "shared_expert", "attention", "linear_attention", "lm_head", "mlp", "projector")
RULES = st.fixed_dictionaries(
    {"role": st.sampled_from(ROLES), "use": st.sampled_from(["int4", "int8", "fp8", "mxfp8", "keep"])},
    optional={
        "part": st.sampled_from(["text", "mtp", "vision"]),
        "layers": st.sampled_from(["0", "1-2", "-1", "0,3"]),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RULES, min_size=1, max_size=6), st.sampled_from(["fused", "separate"]))
def test_any_map_of_roles_to_formats_is_declared_or_refused(
    mixed_plan: MakePlan, rules: list[dict[str, Any]], experts: str
) -> None:
    assume(any(rule["use"] != "keep" for rule in rules))
    try:
        plan = mixed_plan(*rules, experts=experts, mtp_experts=experts)
    except (PlanError, ValidationError):  # nothing to quantize, a width that is not divisible, a rule too many
        assume(False)
    check_all(plan, declare(plan, QWEN3_5_MOE))


def test_the_experts_come_first_whatever_comes_first_in_the_plan(mixed_plan: MakePlan) -> None:
    rest = {"role": REST, "use": "int8"}
    for rules in ([EXPERTS, rest], [rest, EXPERTS]):
        block = declare(mixed_plan(*rules), QWEN3_5_MOE)
        first, second = block["config_groups"].values()
        assert (first["weights"]["num_bits"], second["weights"]["num_bits"]) == (4, 8)
        assert first["targets"] == ["Linear", r"re:.*mlp\.experts\.\d+\.(down_proj|gate_proj|up_proj)$"]
        assert second["targets"] == [
            r"re:.*shared_expert\.(down_proj|gate_proj|gate_up_proj|up_proj)$",
            r"re:.*self_attn\.(k_proj|o_proj|q_proj|qkv_proj|v_proj)$",
            r"re:.*linear_attn\.(in_proj_qkv|in_proj_qkvz|in_proj_z|out_proj)$",
            r"re:.*attn\.(proj|qkv)$",
        ]


@pytest.mark.parametrize("experts", ["fused", "separate"])
@pytest.mark.parametrize("rules", MIXES, ids=range(len(MIXES)))
def test_targets_hit_linear_layers_alone(mixed_plan: MakePlan, rules: list[dict[str, Any]], experts: str) -> None:
    """compressed-tensors up to 0.17 raises for a module of any other class: a convolution, a norm, stacked experts."""
    plan = mixed_plan(*rules, experts=experts, mtp_experts=experts)
    block = declare(plan, QWEN3_5_MOE)
    linear = {name for name, _, _ in modules_of(plan)}
    others = {tensor.name.rpartition(".")[0] for tensor in plan.tensors} - linear
    others = {name for name in others if not re.search(r"\.experts\.\d+$|\.experts\.[1-9]", name)}
    # The containers of all of these, too.
    others |= {name.rsplit(".", depth)[0] for name in others | linear for depth in range(1, 9)} - linear
    assert any(name.endswith("mlp.experts") for name in others)
    assert any(name.endswith("conv1d") for name in others)
    patterns = [target for target, _ in pairs(block) if target != "Linear"]
    assert [name for name in sorted(others) if is_hit(name, patterns) and not is_hit(name, block["ignore"])] == []


def test_how_the_experts_are_stored_changes_no_target(mixed_plan: MakePlan) -> None:
    for rules in MIXES:
        fused, separate = (mixed_plan(*rules, experts=how, mtp_experts=how) for how in ("fused", "separate"))
        assert declare(fused, QWEN3_5_MOE)["config_groups"] == declare(separate, QWEN3_5_MOE)["config_groups"]


def test_text_outweighs_the_mtp_block_and_most_layers_the_others(mixed_plan: MakePlan) -> None:
    by_part = mixed_plan({"role": "routed_expert", "part": "mtp", "use": "int4"}, {**EXPERTS, "use": "fp8"})
    assert formats_in_order(by_part) == ["fp8", "int4"]
    assert declare(by_part, QWEN3_5_MOE)["format"] == "float-quantized"
    by_layer = mixed_plan({**EXPERTS, "layers": "0", "use": "fp8"}, EXPERTS)
    assert formats_in_order(by_layer) == ["int4", "fp8"]


def test_layers_of_one_kind_take_one_entry(mixed_plan: MakePlan) -> None:
    block = declare(mixed_plan({**EXPERTS, "layers": "0,2", "use": "int8"}, EXPERTS), QWEN3_5_MOE)
    (entry,) = block["config_groups"]["group_1"]["targets"]
    assert is_hit("language_model.model.layers.2.mlp.experts.0.gate_proj", [entry])
    assert not is_hit("mtp.layers.0.mlp.experts.0.gate_proj", [entry])


def test_transformers_takes_the_first_group_for_the_experts(mixed_plan: MakePlan) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization")
    integration = pytest.importorskip("transformers.integrations.compressed_tensors")
    for rules in MIXES[:5]:
        config = quantization.QuantizationConfig.model_validate(declare(mixed_plan(*rules), QWEN3_5_MOE))
        assert integration.get_experts_scheme(config) == config.config_groups["group_0"]


@pytest.mark.parametrize("rules", MIXES, ids=range(len(MIXES)))
def test_compressed_tensors_own_matching_agrees(mixed_plan: MakePlan, rules: list[dict[str, Any]]) -> None:
    match = pytest.importorskip("compressed_tensors.utils.match")
    linear = pytest.importorskip("torch").nn.Linear(1, 1)
    plan = mixed_plan(*rules)
    block = declare(plan, QWEN3_5_MOE)
    order, groups = formats_in_order(plan), dict(pairs(block))
    for name, _, format in modules_of(plan):
        matched = match.match_targets(name, linear, groups)
        assert matched
        assert match.is_match(name, linear, groups, block["ignore"]) is (format is not None), name
        assert format is None or groups[matched[0]] == f"group_{order.index(format)}", name


def test_experts_of_one_layer_in_two_formats_are_refused_by_name(mixed_plan: MakePlan) -> None:
    odd = {"name": r"re:.*layers\.1\.mlp\.experts\.3\..*", "use": "int8"}
    with pytest.raises(PlanError, match=r"layers\.1\.mlp\.experts as one layer.*experts\.0\.gate_proj int\d"):
        declare(mixed_plan(odd, EXPERTS, experts="separate"), QWEN3_5_MOE)


def test_a_fused_layer_in_two_formats_is_refused_with_its_matrices(mixed_plan: MakePlan) -> None:
    odd = {"role": "attention", "part": "text", "projection": "v", "use": "int8"}
    attention = {"role": "attention", "part": "text", "use": "int4"}
    with pytest.raises(PlanError, match=r"self_attn\.qkv_proj as one.*k_proj int4, q_proj int4, v_proj int8; give"):
        declare(mixed_plan(odd, attention), QWEN3_5_MOE)


@pytest.mark.parametrize(
    "change",
    [
        lambda targets: {**targets, "int8": [*targets["int8"], "re:.*experts.*"]},
        lambda targets: {**targets, "int8": targets["int8"][1:]},
        lambda targets: dict(reversed(targets.items())),
    ],
)
def test_targets_that_do_not_fit_are_an_error(
    mixed_plan: MakePlan, change: Callable[[Mapping[str, list[str]]], Mapping[str, list[str]]]
) -> None:
    from schemegen.engines import engine_modules
    from schemegen.engines.targets import targets_of

    plan = mixed_plan(EXPERTS, {"role": ["shared_expert", "linear_attention"], "use": "int8"})
    modules = [module for module in engine_modules(plan, QWEN3_5_MOE) if "mtp" not in module.name]
    targets = targets_of(modules, formats_in_order(plan))
    check_targets(modules, targets)
    with pytest.raises(PlanError, match="engines would misread"):
        check_targets([replace(module) for module in modules], change({**targets, "int4": ["Linear"]}))
