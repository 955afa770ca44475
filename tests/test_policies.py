"""Policies that ship: what each changes in front of a scheme, by part, role and layers, and that they compose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schemegen
from bench.checkpoints import SMALL
from bench.schemes import headers_of
from schemegen.architectures.base import Part, Role
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.catalog import load_catalog
from schemegen.data import schemes_folder
from schemegen.errors import PlanError
from schemegen.planner import Plan, make_plan, resolve_rules

SAMPLE = "sample:qwen3.6-moe"
CATALOG = load_catalog()
SHIPPED = {path.stem for path in (schemes_folder() / "policies").glob("*.yaml")}
INT8 = {"num_bits": 8, "strategy": "channel"}
ROLES = ["routed_expert", "shared_expert", "attention", "linear_attention", "mlp", "projector"]
#: Part, role and the format that it has with the policy in front: None where it is kept.
Change = tuple[str, str, str | None]


def scheme(*policy: Any) -> schemegen.Scheme:
    """INT8 by this policy: names and rules."""
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int8": INT8}, "policy": list(policy)}
    return schemegen.Scheme.model_validate(fields)


OUTRIGHT = scheme({"role": ROLES, "use": "int8"})
"""It names roles, and so reaches the vision tower."""
LINEAR = scheme("all-linear")
TABLE: list[tuple[str, str | schemegen.Scheme, set[Change]]] = [
    ("experts-only", "w8a16", {("mtp", "routed_expert", "int8")}),
    (
        "all-linear",
        "kimi-k2-int4",
        {
            ("text", "attention", "int4"),
            ("text", "linear_attention", "int4"),
            ("text", "shared_expert", "int4"),
            ("mtp", "attention", "int4"),
            ("mtp", "shared_expert", "int4"),
        },
    ),
    (
        "attention-only",
        "kimi-k2-int4",
        {("text", "attention", "int4"), ("text", "linear_attention", "int4"), ("mtp", "attention", "int4")},
    ),
    ("keep-attention", LINEAR, {("text", "attention", None), ("mtp", "attention", None)}),
    (
        "keep-attention",
        OUTRIGHT,
        {("text", "attention", None), ("mtp", "attention", None), ("vision", "attention", None)},
    ),
    ("keep-linear-attention", "w8a16", {("text", "linear_attention", None)}),
    ("keep-shared-expert", LINEAR, {("text", "shared_expert", None), ("mtp", "shared_expert", None)}),
    ("keep-mtp", "kimi-k2-int4", {("mtp", "routed_expert", None)}),
    ("keep-vision", OUTRIGHT, {("vision", role, None) for role in ("attention", "mlp", "projector")}),
    ("keep-vision", "w8a16", set()),
    ("keep-lm-head", "int4-int8-mix-lm-head", {("text", "lm_head", None)}),
    ("keep-lm-head", "w8a16", set()),
    ("keep-dense-mlp", OUTRIGHT, {("vision", "mlp", None)}),
    (
        "keep-first-last",
        "w8a16",
        {("text", role, None) for role in ("routed_expert", "shared_expert", "attention", "linear_attention")},
    ),
]


def changes(policies: Sequence[str], of: str | schemegen.Scheme) -> tuple[set[Change], set[tuple[Part, int | None]]]:
    """What policies in front change: by part and role, and by layer."""
    before = {tensor.name: tensor.format for tensor in schemegen.plan(of, SAMPLE).tensors}
    changed = [t for t in schemegen.plan(of, SAMPLE, policies=policies).tensors if t.format != before[t.name]]
    return {(t.part, t.role, t.format) for t in changed}, {(t.part, t.layer) for t in changed}


def test_every_policy_stands_in_the_table() -> None:
    assert {policy for policy, _, _ in TABLE} == SHIPPED


@pytest.mark.parametrize(
    ("policy", "of", "expected"), TABLE, ids=[f"{policy} {getattr(of, 'name', of)}" for policy, of, _ in TABLE]
)
def test_what_a_policy_changes(policy: str, of: str | schemegen.Scheme, expected: set[Change]) -> None:
    assert changes([policy], of)[0] == expected


def test_first_and_last_are_those_of_text() -> None:
    _, places = changes(["keep-first-last"], "w8a16")
    assert places == {(Part.TEXT, 0), (Part.TEXT, 3)}


@pytest.mark.parametrize("policy", ["attention-only", "experts-only", "all-linear"])
def test_a_scheme_that_is_a_policy_alone_quantizes_nothing_else(policy: str) -> None:
    reach = {
        "attention-only": {"attention", "linear_attention"},
        "experts-only": {"routed_expert"},
        "all-linear": {"attention", "linear_attention", "routed_expert", "shared_expert"},
    }
    quantized = [tensor for tensor in schemegen.plan(scheme(policy), SAMPLE).tensors if tensor.format is not None]
    assert {str(tensor.role) for tensor in quantized} == reach[policy]
    assert {tensor.part for tensor in quantized} == {Part.TEXT, Part.MTP}


def test_dense_mlps_of_text_are_kept() -> None:
    """In a family whose layers have a plain MLP, as this one's would be if its shared expert were one."""
    dense = tuple(
        replace(rule, role=Role.MLP) if rule.role is Role.SHARED_EXPERT else rule for rule in QWEN3_5_MOE.rules
    )
    family = replace(QWEN3_5_MOE, rules=dense)

    def of_mlps(*front: str) -> set[tuple[Part, str | None]]:
        rules = resolve_rules(LINEAR, CATALOG.policy, [CATALOG.policy(name) for name in front])
        tensors = make_plan(headers_of(SMALL), family, LINEAR, rules).tensors
        return {(t.part, t.format) for t in tensors if t.role is Role.MLP and t.part is not Part.VISION}

    assert of_mlps() == {(Part.TEXT, "int8"), (Part.MTP, "int8")}
    assert of_mlps("keep-dense-mlp") == {(Part.TEXT, None), (Part.MTP, None)}


def fates(plan: Plan) -> dict[str, str | None]:
    """The format of every tensor by name."""
    return {tensor.name: tensor.format for tensor in plan.tensors}


COMBINED = ["keep-first-last", "keep-shared-expert", "keep-mtp"]


def test_policies_compose_in_a_schemes_list_as_they_do_in_front() -> None:
    listed = schemegen.plan(
        scheme(*COMBINED, {"layers": "1", "role": "attention", "use": "keep"}, "all-linear"), SAMPLE
    )
    in_front = schemegen.plan(LINEAR, SAMPLE, policies=COMBINED)
    assert fates(listed) == fates(in_front)
    quantized = {(t.part, t.role, t.layer) for t in listed.tensors if t.format is not None}
    assert {part for part, _, _ in quantized} == {Part.TEXT}
    assert {layer for _, _, layer in quantized} == {1, 2}
    assert {role for _, role, _ in quantized} == {Role.ROUTED_EXPERT, Role.LINEAR_ATTENTION}


def test_a_policy_file_composes_with_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("schema_version: 1\nname: mine\nsummary: s\nrules: [{role: attention, part: text, use: keep}]\n")
    both = schemegen.plan(LINEAR, SAMPLE, policies=[path, "keep-mtp"])
    assert [rule.label for rule in both.rules] == ["mine[0]", "keep-mtp[0]", "all-linear[0]"]
    assert {(t.part, t.role) for t in both.tensors if t.format} == {
        (Part.TEXT, Role.ROUTED_EXPERT),
        (Part.TEXT, Role.SHARED_EXPERT),
        (Part.TEXT, Role.LINEAR_ATTENTION),
    }


def test_what_is_put_in_front_first_decides_first() -> None:
    kept = schemegen.plan(LINEAR, SAMPLE, policies=["keep-attention", "attention-only"])
    assert {t.format for t in kept.tensors if t.role is Role.ATTENTION} == {None}
    taken = schemegen.plan(LINEAR, SAMPLE, policies=["attention-only", "keep-attention"])
    assert {t.format for t in taken.tensors if t.role is Role.ATTENTION and t.part is Part.TEXT} == {"int8"}


@pytest.mark.parametrize("policy", sorted(SHIPPED))
def test_a_policy_twice_in_a_list_is_refused(policy: str) -> None:
    with pytest.raises(PlanError, match=rf"policy\.1: policy {policy} never decides: {policy}\[0\]"):
        schemegen.plan(scheme(policy, policy, "all-linear"), SAMPLE)


@pytest.mark.parametrize("policy", sorted(name for name in SHIPPED if name.startswith("keep-")))
def test_a_policy_may_be_put_in_front_twice(policy: str) -> None:
    once = schemegen.plan(LINEAR, SAMPLE, policies=[policy])
    assert fates(schemegen.plan(LINEAR, SAMPLE, policies=[policy, policy])) == fates(once)


def test_a_policy_that_comes_after_what_it_would_keep_is_a_note() -> None:
    (note,) = schemegen.plan(scheme("experts-only", "keep-mtp"), SAMPLE).notes
    assert note.startswith("rule keep-mtp[0] would keep ")
    assert note.endswith(" tensors that experts-only[0] quantizes; put it in front")
    assert schemegen.plan(scheme("keep-mtp", "experts-only"), SAMPLE).notes == ()
    own = [{"role": "routed_expert", "part": "mtp", "use": "int8"}, {"part": "mtp", "use": "keep"}, "all-linear"]
    notes = schemegen.plan(scheme(*own), SAMPLE).notes
    assert [note for note in notes if "cannot stand in ignore" not in note] == []
