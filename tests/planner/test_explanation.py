"""Explanations: each tensor's reason from the plan alone, patterns over names, the nearest names where none fits."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

import schemegen
from schemegen.planner import Plan
from schemegen.planner.explanation import Explanation, explain
from schemegen.rule import Rule

SAMPLE = "sample:qwen3.6-moe"
TRUNK, MTP = "model.language_model.layers.", "mtp.layers.0."
EXPERTS = TRUNK + "2.mlp.experts.gate_up_proj"
NO_MATRIX = "not a matrix: a format takes a module's 2-D weight or a stack of experts"
MIX = "int4-int8-mix"


@cache
def plan(scheme: str = "kimi-k2-int4", *policies: str) -> Plan:
    return schemegen.plan(scheme, SAMPLE, policies=policies)


def one(plan: Plan, name: str) -> Explanation:
    (explanation,) = explain(plan, name)
    return explanation


@pytest.mark.parametrize(
    ("made", "name", "reason"),
    [
        (plan, EXPERTS, "experts-only[0] {role: routed_expert, use: default} -> int4"),
        (plan, MTP + "mlp.experts.down_proj", "experts-only[0] {role: routed_expert, use: default} -> int4"),
        (plan, TRUNK + "3.self_attn.q_proj.weight", "no rule reaches it"),
        (plan, TRUNK + "0.mlp.gate.weight", "protected: only a rule that names role router reaches it"),
        (plan, "mtp.fc.weight", "protected: only a rule that names role fusion reaches it"),
        (plan, TRUNK + "0.input_layernorm.weight", NO_MATRIX),
        (plan, TRUNK + "0.linear_attn.conv1d.weight", NO_MATRIX),
        (plan, "model.visual.blocks.0.attn.qkv.bias", NO_MATRIX),
        (
            plan,
            "model.visual.blocks.0.attn.qkv.weight",
            "protected as part vision: only a rule that names role attention reaches it",
        ),
        (
            plan,
            "model.visual.merger.linear_fc1.weight",
            "protected: only a rule that names role projector reaches it",
        ),
        (lambda: plan(MIX), EXPERTS, f"{MIX}[1] {{role: routed_expert, use: int4}}"),
        (lambda: plan(MIX), TRUNK + "3.self_attn.q_proj.weight", f"{MIX}[2] {{role: '*', use: int8}}"),
        (lambda: plan(MIX), MTP + "input_layernorm.weight", "keep-mtp[0] {part: mtp, use: keep}"),
    ],
)
def test_what_decided_or_why_nothing_did(made: object, name: str, reason: str) -> None:
    assert callable(made)
    assert one(made(), name).reason == reason


def test_what_it_becomes() -> None:
    assert one(plan(), EXPERTS).becomes == "int4: INT4 g32, pack-quantized"
    assert one(plan(), "lm_head.weight").becomes == "kept as it is"
    assert one(plan(), EXPERTS).bits_per_weight == pytest.approx(4.5, rel=0.01)
    assert one(plan(), "lm_head.weight").bits_per_weight == 16


def test_nothing_has_no_bits_a_weight() -> None:
    tensor = one(plan(), "lm_head.weight").tensor
    empty = replace(
        tensor,
        source=tensor.source._replace(shape=(0, 4), nbytes=0),
        outputs=(tensor.outputs[0]._replace(shape=(0, 4), nbytes=0),),
    )
    assert one(replace(plan(), tensors=(empty,)), "lm_head.weight").bits_per_weight is None


def test_a_rule_that_names_a_role_does_not_make_a_vector_a_matrix(tmp_path: Path) -> None:
    policy = tmp_path / "odd.yaml"
    policy.write_text("schema_version: 1\nname: odd\nsummary: none\nrules:\n- {role: norm, use: default}\n")
    made = schemegen.plan("kimi-k2-int4", SAMPLE, policies=[policy])
    assert one(made, "mtp.norm.weight").reason == NO_MATRIX


RULES = [
    {"role": ["attention", "mlp"], "part": "text", "layers": "0-2,-1", "projection": ["q", "k"], "use": "int4"},
    {"role": "*", "use": "keep"},
    {"part": "mtp", "name": r"re:.*\.experts\.[0-3]: 'x' #é", "use": "int4"},
    {"layers": "3", "use": "keep"},
]


@pytest.mark.parametrize("written", RULES)
def test_a_rule_is_told_as_the_yaml_that_it_is(written: dict[str, object]) -> None:
    made = plan()
    rule = Rule.model_validate(written)
    resolved = replace(made.rules[0], rule=rule, format=None if rule.use == "keep" else rule.use)
    tensor = replace(made.tensors[0], rule=resolved.label, format=resolved.format)
    label, _, text = one(replace(made, rules=(resolved,), tensors=(tensor,)), tensor.name).reason.partition(" ")
    assert label == resolved.label
    assert Rule.model_validate(yaml.safe_load(text)) == rule
    assert "\n" not in text


def test_the_first_of_equal_labels_decided() -> None:
    made = schemegen.plan(MIX, SAMPLE, policies=["keep-mtp"])
    assert one(made, "mtp.norm.weight").reason == "keep-mtp[0] {part: mtp, use: keep}"


def test_a_plan_from_json_explains_the_same() -> None:
    assert explain(Plan.from_json(plan(MIX).to_json()), "*") == explain(plan(MIX), "*")


def test_patterns() -> None:
    made = plan()
    assert tuple(explanation.tensor for explanation in explain(made, "*")) == made.tensors
    assert {explanation.tensor.role for explanation in explain(made, "*.experts.*")} == {"routed_expert"}
    assert [e.tensor.name for e in explain(made, "model.language_model.layers.[02].mlp.gate.weigh?")] == [
        f"{TRUNK}{layer}.mlp.gate.weight" for layer in (0, 2)
    ]


def test_the_name_of_something_stored_finds_what_it_came_from() -> None:
    assert one(plan(), TRUNK + "2.mlp.experts.5.up_proj.weight_scale").tensor.name == EXPERTS
    assert {explanation.tensor.format for explanation in explain(plan(), "*.weight_packed")} == {"int4"}


def test_a_name_with_signs_of_a_pattern_matches_itself() -> None:
    odd = replace(plan().tensors[0], name="a[0].weight", outputs=())
    assert one(replace(plan(), tensors=(odd,)), "a[0].weight").tensor is odd


@pytest.mark.parametrize(
    ("glob", "near"),
    [
        ("model.layers.3.mlp.experts.gate_up_proj", TRUNK + "3.mlp.experts.gate_up_proj"),
        ("model.language_model.layers.2.mlp.expert.gate_up_proj", EXPERTS),
        ("LM_head.weight", "lm_head.weight"),
        ("*.expertz.*", MTP + "mlp.experts.down_proj"),
        ("model.language_model.layers.{7-9}.mlp.gate.weight", TRUNK + "0.mlp.gate.weight"),
    ],
)
def test_no_match_tells_the_nearest_names_and_the_star(glob: str, near: str) -> None:
    with pytest.raises(schemegen.UnknownNameError, match="unknown tensor") as refused:
        explain(plan(), glob)
    assert near in str(refused.value)
    assert "* stands for anything" in str(refused.value)


@pytest.mark.parametrize(
    ("glob", "count"),
    [
        (TRUNK + "{1-2}.mlp.experts.down_proj", 2),
        (TRUNK + "{0,2-3}.mlp.experts.{down,gate_up}_proj", 6),
        ("….experts.{0-7}.{gate,up}_proj.weight_packed", 5),
        ("*.linear_attn.in_proj_{a,b}.weight", 6),
        (TRUNK + "{00-1}.mlp.gate.weight", 2),
        (TRUNK + "[{1,2}].mlp.gate.weight", 2),
    ],
)
def test_braces_stand_for_numbers_and_words(glob: str, count: int) -> None:
    assert len(explain(plan(), glob)) == count


def test_what_is_printed_is_taken_back() -> None:
    from schemegen.cli import explained

    for block in explained.blocks(explain(plan(), "*")):
        assert [told.tensor for told in explain(plan(), block.pattern)] == sorted(
            block.tensors, key=plan().tensors.index
        )


RANGES = ["{0-999999}", "{5-1}", "{0-99}{0-99}.x", "{-}", "{,}", "{{0-1}}", "{a,b", "\0{0-1}\0"]


@pytest.mark.parametrize("glob", RANGES)
def test_odd_braces_are_no_fault(glob: str) -> None:
    with pytest.raises(schemegen.UnknownNameError):
        explain(plan(), glob)


@pytest.mark.parametrize(
    ("rule", "name", "reason"),
    [
        (
            {"role": "attention", "layers": "0-3", "use": "default"},
            "model.visual.blocks.0.attn.qkv.weight",
            "no rule reaches it: odd[0] names attention of part text, in which its layers count",
        ),
        (
            {"role": "attention", "part": "text", "use": "default"},
            "model.visual.blocks.0.attn.qkv.weight",
            "no rule reaches it: odd[0] names attention of part text",
        ),
        (
            {"role": ["lm_head", "attention"], "layers": "0-3", "use": "default"},
            "lm_head.weight",
            "no rule reaches it: odd[0] names lm_head, but not with this layer",
        ),
        (
            {"role": "attention", "projection": ["q", "k"], "name": "re:.*q_proj", "use": "default"},
            "mtp.layers.0.self_attn.k_proj.weight",
            "no rule reaches it: odd[0] names attention, but not with this name",
        ),
        (
            {"role": "routed_expert", "layers": "1-2", "projection": ["gate", "up", "down"], "use": "w8"},
            TRUNK + "0.mlp.experts.down_proj",
            "no rule reaches it: odd[0] names routed_expert, but not with this layer",
        ),
        (
            {"role": "routed_expert", "layers": "0,-1", "projection": "gate", "use": "w8"},
            TRUNK + "3.mlp.experts.gate_up_proj",
            "no rule reaches it: odd[0] names routed_expert, but not with this projection",
        ),
        (
            {"role": "routed_expert", "layers": "-1", "projection": "gate", "name": "re:mtp", "use": "w8"},
            TRUNK + "0.mlp.experts.gate_up_proj",
            "no rule reaches it: odd[0] names routed_expert, but not with this layer and projection and name",
        ),
    ],
)
def test_a_rule_that_names_the_role_and_does_not_reach_it(rule: dict[str, object], name: str, reason: str) -> None:
    odd = replace(plan().rules[0], label="odd[0]", rule=Rule.model_validate(rule))
    kept = [
        replace(tensor, rule="no rule", format=None) if tensor.name == name else tensor for tensor in plan().tensors
    ]
    assert one(replace(plan(), rules=(odd,), tensors=tuple(kept)), name).reason == reason


@pytest.mark.parametrize("glob", ["\x1b[2J\n" * 50, "[" * 100, "*" * 10_000, "(((", "\ud800"])
def test_odd_patterns_are_told_on_one_short_line(glob: str) -> None:
    if glob.strip("*"):
        with pytest.raises(schemegen.UnknownNameError) as refused:
            explain(plan(), glob)
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 800
    else:
        assert len(explain(plan(), glob)) == len(plan().tensors)


def test_in_json_it_is_the_plans_tensor_and_what_is_said_of_it() -> None:
    rows = json.loads(json.dumps([explanation.to_dict() for explanation in explain(plan(MIX), "*")]))
    told = [(row.pop("becomes"), row.pop("reason"), row.pop("bits_per_weight")) for row in rows]
    assert rows == json.loads(plan(MIX).to_json())["tensors"]
    assert ("int4: INT4 g128, pack-quantized", f"{MIX}[1] {{role: routed_expert, use: int4}}") in {
        (becomes, reason) for becomes, reason, _ in told
    }


def test_it_is_public() -> None:
    assert schemegen.explain is explain
    assert schemegen.Explanation is Explanation
