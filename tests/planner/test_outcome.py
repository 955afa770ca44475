"""What rules come to in a model: notes on those that decide nothing, errors where a scheme's aim is kept from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schemegen.architectures.base import Role, TensorRule
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import PlanError
from schemegen.planner import Plan, ResolvedRule, make_plan, resolve_rules
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Scheme

HeadersOnly = Callable[..., Checkpoint]
Tensors = dict[str, tuple[str, tuple[int, ...], str]]
MakePlan = Callable[..., Plan]
# A part of a model is enough here.
ARCHITECTURE = replace(QWEN3_5_MOE, required=lambda config: ())
INT4 = {"num_bits": 4, "group_size": 32}
INT8 = {"num_bits": 8, "strategy": "channel"}
EXPERTS = {"role": "routed_expert", "use": "int4"}
REST = {"role": "*", "use": "int8"}
KEPT_EXPERTS = {"role": "routed_expert", "use": "keep"}


@pytest.fixture
def planned(headers_only: HeadersOnly, toy: Tensors) -> MakePlan:
    """A factory: a scheme's rules, and rules in front, each of a policy of its own, → the plan of the toy."""

    def make(*own: dict[str, Any], front: tuple[dict[str, Any], ...] = ()) -> Plan:
        fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int4": INT4, "int8": INT8}}
        scheme = Scheme.model_validate({**fields, "policy": list(own)})
        policies = [
            Policy.model_validate({"schema_version": 1, "name": f"front{at}", "summary": "s", "rules": [rule]})
            for at, rule in enumerate(front)
        ]
        rules = resolve_rules(scheme, lambda name: pytest.fail(name), policies)
        return make_plan(headers_only(toy), ARCHITECTURE, scheme, rules)

    return make


def test_a_plan_in_which_all_is_used_has_no_notes(planned: MakePlan) -> None:
    assert planned(EXPERTS, REST).notes == ()


@pytest.mark.parametrize(
    ("idle", "note"),
    [
        ({"role": "indexer", "use": "int8"}, "rule mine[0] matches no tensor of this model"),
        ({"part": "audio", "use": "keep"}, "rule mine[0] matches no tensor of this model"),
        ({"layers": "0", "part": "audio", "use": "keep"}, "rule mine[0] matches no tensor of this model"),
        ({"role": "router", "projection": "q", "use": "keep"}, "rule mine[0] matches no tensor of this model"),
        (
            {"layers": "90,-8--2", "use": "keep"},
            'rule mine[0] matches no tensor of this model: layers "90,-8--2" names none of the 1 in part text',
        ),
        (
            {"layers": "1", "part": "mtp", "use": "keep"},
            'rule mine[0] matches no tensor of this model: layers "1" names none of the 1 in part mtp',
        ),
        ({"layers": "0", "role": "mlp", "use": "keep"}, "rule mine[0] matches no tensor of this model"),
    ],
)
def test_a_rule_that_matches_nothing_is_a_note(planned: MakePlan, idle: dict[str, Any], note: str) -> None:
    assert planned(idle, EXPERTS, REST).notes == (note,)


def test_a_rule_whose_tensors_are_taken_is_a_note_that_names_who_took_them(planned: MakePlan) -> None:
    front = ({"part": "mtp", "use": "keep"}, {"role": "routed_expert", "layers": "0", "use": "int8"})
    assert planned(EXPERTS, REST, front=front).notes == (
        "rule mine[0] decides no tensor of this model: "
        "front1[0] and front0[0] take all 4 tensors that it matches first",
        "no tensor of this model gets format int4",
    )


def test_a_rule_that_one_other_takes_all_of(planned: MakePlan) -> None:
    attention = {"role": "attention", "use": "int8"}
    assert planned(EXPERTS, REST, attention).notes == (
        "rule mine[2] decides no tensor of this model: mine[1] takes the one tensor that it matches first",
    )


def test_a_format_that_no_rule_hands_out_is_a_note(planned: MakePlan) -> None:
    assert planned(EXPERTS).notes == ("no tensor of this model gets format int8",)


@pytest.mark.parametrize(
    ("own", "front", "why"),
    [
        (({"role": "indexer", "use": "int4"},), (), "its rules match no tensor that may be quantized; `schemegen insp"),
        (({"use": "keep"},), (), "its rules match no tensor that may be quantized"),
        ((EXPERTS,), ({"use": "keep"},), "front0[0] keeps all 4 tensors that mine[0] would quantize: leave it out"),
        (
            (EXPERTS, REST),
            ({"part": "mtp", "use": "keep"}, {"part": "text", "use": "keep"}),
            "front1[0] and front0[0] keep all 5 tensors that mine[0] and mine[1] would quantize: leave one of them out",
        ),
    ],
)
def test_a_plan_that_quantizes_nothing_says_why(planned: MakePlan, own: Any, front: Any, why: str) -> None:
    with pytest.raises(PlanError, match=f"^scheme mine quantizes nothing in this model; {re.escape(why)}"):
        planned(*own, front=front)


@pytest.mark.parametrize(
    ("own", "front", "who", "why"),
    [
        (
            (EXPERTS, REST),
            (KEPT_EXPERTS,),
            "mine[0]",
            "front0[0] keeps all 4 tensors that mine[0] would quantize: leave it out",
        ),
        (
            (EXPERTS | {"layers": "90"}, {"role": "attention", "use": "int8"}),
            (),
            "mine[0]",
            "its layers, projection or name match none of them: correct the rule",
        ),
        (
            (EXPERTS | {"part": "mtp"}, EXPERTS, {"role": "attention", "use": "int8"}),
            (KEPT_EXPERTS,),
            "mine[0] and mine[1]",
            "front0[0] keeps all 4 tensors that mine[0] and mine[1] would quantize: leave it out",
        ),
    ],
)
def test_experts_that_a_scheme_names_do_not_all_stay(
    planned: MakePlan, own: Any, front: Any, who: str, why: str
) -> None:
    with pytest.raises(PlanError) as caught:
        planned(*own, front=front)
    assert str(caught.value) == (
        f"scheme mine leaves all routed experts as shipped, though {who} would quantize some; "
        f"{why}, or take a scheme that names no routed experts"
    )


@pytest.mark.parametrize(
    ("own", "front"),
    [
        ((REST,), (KEPT_EXPERTS,)),
        ((EXPERTS, REST), (KEPT_EXPERTS | {"part": "text"},)),
        ((EXPERTS | {"part": "audio"}, {"role": "attention", "use": "int8"}), ()),
    ],
)
def test_a_scheme_that_does_not_name_them_or_gets_some_is_planned(planned: MakePlan, own: Any, front: Any) -> None:
    assert any(tensor.format is not None for tensor in planned(*own, front=front).tensors)


def test_a_model_without_experts_needs_none(headers_only: HeadersOnly, toy: Tensors) -> None:
    dense = {name: value for name, value in toy.items() if "mlp" not in name and "mtp" not in name}
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int4": INT4, "int8": INT8}}
    scheme = Scheme.model_validate({**fields, "policy": [EXPERTS, REST]})
    plan = make_plan(headers_only(dense), ARCHITECTURE, scheme, resolve_rules(scheme, lambda name: pytest.fail(name)))
    assert {tensor.format for tensor in plan.tensors} == {None, "int8"}
    assert "rule mine[0] matches no tensor of this model" in plan.notes


def test_of_a_finished_output_it_is_not_asked_what_its_rules_reach(headers_only: HeadersOnly, toy: Tensors) -> None:
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int4": INT4, "int8": INT8}}
    scheme = Scheme.model_validate({**fields, "policy": [KEPT_EXPERTS, REST]})
    rules = [
        *resolve_rules(scheme, lambda name: pytest.fail(name)),
        ResolvedRule("old[0]", Rule.model_validate(EXPERTS), "int4", "old"),
    ]
    with pytest.raises(PlanError, match="leaves all routed experts as shipped"):
        make_plan(headers_only(toy), ARCHITECTURE, scheme, rules)
    assert make_plan(headers_only(toy), ARCHITECTURE, scheme, rules, again=True).formats_used.keys() == {"int8"}


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        (
            {"role": "routed_expert", "projection": "dwn", "use": "keep"},
            "rule mine[0] matches no tensor of this model: "
            "there the projections are down, gate, up; did you mean down?",
        ),
        (
            {"role": "routed_expert", "projection": ["w1", "w2"], "use": "int8"},
            "rule mine[0] matches no tensor of this model: there the projections are down, gate, up",
        ),
        (
            {"role": "routed_expert", "projection": ["gate", "down"], "use": "int8"},
            "rule mine[0] does not name up: 2 tensors that hold gate and up in one are left to the rules after it",
        ),
    ],
)
def test_projections_that_are_not_there_or_in_part(planned: MakePlan, rule: dict[str, Any], note: str) -> None:
    notes = planned(rule, EXPERTS, REST).notes
    assert note in notes


FUSED = "model.language_model.layers.0.self_attn.qkv_proj.weight"


@pytest.mark.parametrize(
    ("projections", "use", "format", "note"),
    [
        (["q", "k", "v", "o"], "int8", "int8", None),
        (["q", "o"], "int8", None, "rule mine[0] does not name k and v: 1 tensor that holds q, k and v in one is left"),
        (["qkv"], "int8", "int8", None),
        ("v", "keep", None, None),
    ],
)
def test_a_matrix_fused_in_the_file_is_taken_whole(
    headers_only: HeadersOnly, toy: Tensors, projections: Any, use: str, format: str | None, note: str | None
) -> None:
    pattern = r"model\.language_model\.layers\.(?P<layer>\d+)\.self_attn\.(?P<projection>qkv)_proj\.weight"
    known = replace(ARCHITECTURE, rules=(TensorRule(pattern, Role.ATTENTION), *ARCHITECTURE.rules))
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int4": INT4, "int8": INT8}}
    rule = {"role": "attention", "projection": projections, "use": use}
    scheme = Scheme.model_validate({**fields, "policy": [rule, EXPERTS]})
    tensors = {**toy, FUSED: ("BF16", (192, 64), "b.safetensors")}
    plan = make_plan(headers_only(tensors), known, scheme, resolve_rules(scheme, lambda name: pytest.fail(name)))
    assert [tensor.format for tensor in plan.tensors if tensor.name == FUSED] == [format]
    told = [found for found in plan.notes if "does not name" in found]
    assert told == [] if note is None else told[0].startswith(note)
