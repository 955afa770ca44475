"""The policy of a run: order, labels, and entries of a scheme's list that earlier ones shadow."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.data import schemes_folder
from schemegen.errors import PlanError, UnknownNameError
from schemegen.loader import load_policies
from schemegen.planner import ResolvedRule, resolve_rules
from schemegen.planner.rules import shadow_faults
from schemegen.policy import Policy
from schemegen.scheme import Scheme

INT8 = {"num_bits": 8, "strategy": "channel"}


def policy(name: str, *rules: dict[str, Any]) -> Policy:
    return Policy.model_validate({"schema_version": 1, "name": name, "summary": "s", "rules": list(rules)})


KNOWN = {found.name: found for found in load_policies(schemes_folder() / "policies")} | {
    "two": policy("two", {"role": "attention", "use": "int8"}, {"role": "mlp", "use": "int8"}),
    "mlp": policy("mlp", {"role": "mlp", "use": "keep"}),
}
ATTENTION = {"role": "attention", "part": "text", "use": "int8"}
LATE = "keeps nothing: all-linear[0] takes first what it should keep; move it up or take it out"


def scheme(*entries: Any) -> Scheme:
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int8": INT8}, "policy": list(entries)}
    return Scheme.model_validate(fields)


def taken(*labels: str) -> str:
    takers, verb = " and ".join(labels), "take" if len(labels) > 1 else "takes"
    return f"never decides: {takers} {verb} all that it selects; move it up or take it out"


def test_what_is_in_front_comes_first_and_labels_say_where_rules_stand() -> None:
    resolved = resolve_rules(scheme("two", ATTENTION | {"role": "norm"}), KNOWN.__getitem__, [KNOWN["mlp"]])
    assert [(rule.label, rule.format) for rule in resolved] == [
        ("mlp[0]", None),
        ("two[0]", "int8"),
        ("two[1]", "int8"),
        ("mine[1]", "int8"),
    ]


def test_a_rule_goes_to_json_and_back() -> None:
    rule, _ = resolve_rules(scheme("two"), KNOWN.__getitem__)
    assert ResolvedRule.from_dict(rule.to_dict()) == rule


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        (["all-linear", ATTENTION], [("policy.1", "mine[1] " + taken("all-linear[0]"))]),
        (["keep-attention", ATTENTION], [("policy.1", "mine[1] " + taken("keep-attention[0]"))]),
        (["all-linear", "keep-mtp"], [("policy.1", f"policy keep-mtp {LATE}")]),
        (["all-linear", {"part": "mtp", "use": "keep"}], [("policy.1", f"mine[1] {LATE}")]),
        (["two", "mlp"], [("policy.1", "policy mlp " + taken("two[1]"))]),
        (["mlp", "keep-attention", "two"], [("policy.2", "policy two " + taken("mlp[0]", "keep-attention[0]"))]),
        ([ATTENTION | {"part": None}, "mlp", "two"], [("policy.2", "policy two " + taken("mine[0]", "mlp[0]"))]),
        (
            ["keep-mtp", "keep-mtp", "all-linear", "keep-first-last"],
            [("policy.1", "policy keep-mtp " + taken("keep-mtp[0]")), ("policy.3", f"policy keep-first-last {LATE}")],
        ),
    ],
)
def test_shadowed_entries_are_refused_with_both_names(entries: list[Any], faults: list[tuple[str, str]]) -> None:
    found = scheme(*entries)
    assert shadow_faults(found, KNOWN.__getitem__) == faults
    with pytest.raises(PlanError) as caught:
        resolve_rules(found, KNOWN.__getitem__)
    assert str(caught.value).splitlines() == [f"scheme mine: {place}: {message}" for place, message in faults]


@pytest.mark.parametrize(
    "entries",
    [
        ["keep-mtp", "all-linear"],
        ["all-linear", "experts-only"],
        ["mlp", "two"],
        ["two", "all-linear"],
        ["experts-only", "keep-mtp", "all-linear"],
        ["all-linear", "keep-vision"],
        ["all-linear", "keep-lm-head"],
    ],
)
def test_entries_of_which_something_is_left_are_taken(entries: list[Any]) -> None:
    assert shadow_faults(scheme(*entries), KNOWN.__getitem__) == []
    assert len(resolve_rules(scheme(*entries), KNOWN.__getitem__)) >= len(entries)


def test_what_is_in_front_may_shadow_what_it_likes() -> None:
    everything = policy("everything", {"use": "keep"})
    assert len(resolve_rules(scheme("two"), KNOWN.__getitem__, [everything, everything])) == 4


def test_a_format_that_the_scheme_lacks_is_told_before_shadows() -> None:
    odd = policy("odd", {"role": "mlp", "use": "int4"})
    with pytest.raises(PlanError, match=r"scheme mine does not go with odd\[0\]: use: int4 names no format"):
        resolve_rules(scheme("mlp", "odd"), {**KNOWN, "odd": odd}.__getitem__)


def test_a_name_that_nobody_knows_is_whose_looks_it_up() -> None:
    def find(name: str) -> Policy:
        raise UnknownNameError("policy", name)

    with pytest.raises(UnknownNameError, match="'nobody'"):
        shadow_faults(scheme("nobody"), find)


def test_two_policies_of_one_name_are_refused() -> None:
    other = policy("mlp", {"part": "mtp", "use": "keep"})
    with pytest.raises(PlanError, match="two policies of this run are called mlp and have other rules; rename one"):
        resolve_rules(scheme("two"), KNOWN.__getitem__, [KNOWN["mlp"], other])
    assert resolve_rules(scheme("two"), KNOWN.__getitem__, [KNOWN["mlp"], KNOWN["mlp"]])


def test_a_policy_that_no_file_brings_may_not_shadow_itself() -> None:
    odd = policy("odd", {"use": "keep", "part": "mtp"}, {"role": "mlp", "part": "mtp", "use": "int8"})
    told = "policy odd: rules.1: never decides: rules.0 takes all that it selects; move it up or take it out"
    for entries, front in ((["two"], [odd]), (["odd", "two"], [])):
        with pytest.raises(PlanError) as caught:
            resolve_rules(scheme(*entries), {**KNOWN, "odd": odd}.__getitem__, front)
        assert str(caught.value) == told


def test_what_brings_a_rule_is_known_by_name_and_again_from_json() -> None:
    resolved = resolve_rules(scheme("two", {"role": "indexer", "use": "int8"}), KNOWN.__getitem__, [KNOWN["mlp"]])
    assert [(rule.source, rule.label) for rule in resolved] == [
        ("mlp", "mlp[0]"),
        ("two", "two[0]"),
        ("two", "two[1]"),
        ("mine", "mine[1]"),
    ]
    assert [ResolvedRule.from_dict(rule.to_dict()) for rule in resolved] == [*resolved]
    assert {key for rule in resolved for key in rule.to_dict()} == {"label", "format", "rule"}


def test_a_policy_that_has_the_schemes_name_is_refused() -> None:
    found, known = scheme({"role": "router", "use": "keep"}, "mine"), {"mine": policy("mine", {"use": "int8"})}
    told = "the scheme and a policy of this run are called mine and have other rules; rename one of them"
    with pytest.raises(PlanError, match=f"^{told}$"):
        resolve_rules(found, known.__getitem__)


def test_layers_that_run_backwards_are_refused_in_objects_too() -> None:
    backwards = {"role": "mlp", "layers": "5-3", "use": "int8"}
    with pytest.raises(PlanError, match=r"^scheme mine: policy\.1: layers 5-3 run backwards and name none; write"):
        resolve_rules(scheme("attention-only", backwards), KNOWN.__getitem__)
    odd = policy("odd", backwards)
    with pytest.raises(PlanError, match=r"^policy odd: rules\.0: layers 5-3 run backwards"):
        resolve_rules(scheme("two"), KNOWN.__getitem__, [odd])
