"""make_plan: fates, names, exact bytes, gap-free offsets, and every fault found from headers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.model import Checkpoint
from schemegen.data import schemes_folder
from schemegen.errors import PlanError
from schemegen.loader import load_policies, load_scheme
from schemegen.planner import Action, Plan, make_plan, resolve_rules
from schemegen.policy import Policy
from schemegen.scheme import Scheme

HeadersOnly = Callable[..., Checkpoint]
Tensors = dict[str, tuple[str, tuple[int, ...], str]]
TEXT, MTP = "model.language_model.layers.0.", "mtp.layers.0."
# A part of a model is enough here.
ARCHITECTURE = replace(QWEN3_5_MOE, required=lambda config: ())
KIMI = load_scheme(schemes_folder() / "kimi-k2-int4.yaml")
POLICIES = {policy.name: policy for policy in load_policies(schemes_folder() / "policies")}


def planned(checkpoint: Checkpoint, *in_front: str | Policy, scheme: Scheme = KIMI) -> Plan:
    front = [POLICIES[policy] if isinstance(policy, str) else policy for policy in in_front]
    return make_plan(checkpoint, ARCHITECTURE, scheme, resolve_rules(scheme, POLICIES.__getitem__, front))


def with_rules(*rules: dict[str, Any]) -> Scheme:
    return Scheme.model_validate(KIMI.model_dump(mode="json") | {"policy": list(rules)})


def test_fused_experts_become_three_tensors_a_matrix(headers_only: HeadersOnly, toy: Tensors) -> None:
    plan = planned(headers_only(toy))
    fused = next(tensor for tensor in plan.tensors if tensor.name == TEXT + "mlp.experts.gate_up_proj")
    assert (fused.action, fused.rule, fused.format, fused.matrices) == (Action.QUANTIZE, "experts-only[0]", "int4", 4)
    assert fused.matrix_shape == (32, 64)
    assert [(output.name.removeprefix(TEXT), output.dtype, output.shape) for output in fused.outputs[:6]] == [
        ("mlp.experts.0.gate_proj.weight_packed", "I32", (32, 8)),
        ("mlp.experts.0.gate_proj.weight_scale", "BF16", (32, 2)),
        ("mlp.experts.0.gate_proj.weight_shape", "I64", (2,)),
        ("mlp.experts.0.up_proj.weight_packed", "I32", (32, 8)),
        ("mlp.experts.0.up_proj.weight_scale", "BF16", (32, 2)),
        ("mlp.experts.0.up_proj.weight_shape", "I64", (2,)),
    ]


def test_both_layouts_become_the_same_tensors(headers_only: HeadersOnly, toy: Tensors, one_by_one: Tensors) -> None:
    fused = planned(headers_only({name: toy[name] for name in toy if name.startswith(TEXT + "mlp.experts")}))
    alone = planned(headers_only(one_by_one))

    def stored(plan: Plan) -> set[tuple[str, str, tuple[int, ...]]]:
        return {(o.name, o.dtype, o.shape) for tensor in plan.tensors for o in tensor.outputs}

    assert stored(fused) == stored(alone)


def test_projections_mean_the_same_in_both_layouts(
    headers_only: HeadersOnly, toy: Tensors, one_by_one: Tensors
) -> None:
    fused = headers_only({name: toy[name] for name in toy if name.startswith(TEXT + "mlp.experts")})
    for projections, kept in ((["gate", "up", "down"], set()), (["gate", "up"], {"down"}), (["down"], {"gate", "up"})):
        scheme = with_rules({"role": "routed_expert", "projection": projections, "use": "int4"})
        plans = [planned(checkpoint, scheme=scheme) for checkpoint in (fused, headers_only(one_by_one))]
        stored = [{o.name for t in plan.tensors for o in t.outputs if t.format is not None} for plan in plans]
        assert stored[0] == stored[1]
        assert len(stored[0]) == 2 * 3 * (3 - len(kept))


def test_kept_tensors_stay_as_they_are(headers_only: HeadersOnly, toy: Tensors) -> None:
    for tensor in planned(headers_only(toy)).tensors:
        if tensor.action is Action.COPY:
            (output,) = tensor.outputs
            source = tensor.source
            assert (output.name, *output[1:4], output.nbytes) == (
                tensor.name,
                source.dtype,
                source.shape,
                source.file,
                source.nbytes,
            )


@pytest.mark.parametrize("policies", [(), ("keep-mtp",)])
def test_shards_have_no_gaps_and_every_output_is_aligned(
    headers_only: HeadersOnly, toy: Tensors, policies: tuple[str, ...]
) -> None:
    toy[TEXT + "linear_attn.A_log"] = ("F32", (3,), "b.safetensors")
    plan = planned(headers_only(toy), *policies)
    assert plan.files == ("a.safetensors", "b.safetensors")
    for outputs in plan.outputs.values():
        end = 0
        for output in outputs:
            assert output.offset == end, output.name
            assert output.offset % {"I64": 8, "I32": 4, "F32": 4, "BF16": 2}[output.dtype] == 0
            end += output.nbytes


def test_totals(headers_only: HeadersOnly, toy: Tensors) -> None:
    totals = planned(headers_only(toy)).totals
    experts = 2 * EXPERT_ITEMS
    kept = 64 + 2 * 64 + 64 * 64 + 64 * 128
    assert totals.bytes_in == 2 * (experts + kept)
    assert totals.bytes_out == experts // 2 + experts // 32 * 2 + 12 * 16 + 2 * kept
    assert (totals.tensors_in, totals.tensors_out) == (8, 4 + 12 * 3)
    assert sum(row.bytes_out for row in totals.by_role) == totals.bytes_out


EXPERT_ITEMS = 2 * (64 * 64 + 64 * 32)


def test_keep_mtp_in_front_keeps_the_whole_block(headers_only: HeadersOnly, toy: Tensors) -> None:
    plan = planned(headers_only(toy), "keep-mtp")
    fates = {tensor.name: (tensor.action, tensor.rule) for tensor in plan.tensors}
    assert fates[MTP + "mlp.experts.gate_up_proj"] == (Action.COPY, "keep-mtp[0]")
    assert fates[TEXT + "mlp.experts.gate_up_proj"] == (Action.QUANTIZE, "experts-only[0]")
    assert fates[TEXT + "mlp.gate.weight"] == (Action.COPY, "no rule")


def test_a_star_does_not_reach_protected_or_flat_tensors(headers_only: HeadersOnly, toy: Tensors) -> None:
    plan = planned(headers_only(toy), scheme=with_rules({"role": "*", "use": "int4"}))
    quantized = {tensor.name for tensor in plan.tensors if tensor.action is Action.QUANTIZE}
    assert {name for name in toy if "experts" in name or "q_proj" in name} == quantized


def test_a_plan_goes_to_json_and_back(headers_only: HeadersOnly, toy: Tensors) -> None:
    plan = planned(headers_only(toy), "keep-mtp")
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.totals == plan.totals
    assert again.rules[0].rule.matches is not None
    row = json.loads(plan.to_json())["tensors"][1]
    assert {"name", "role", "part", "layer", "expert", "projection", "action", "rule", "format", "outputs"} <= set(row)
    assert set(row["outputs"][0]) == {"name", "dtype", "shape", "file", "offset", "nbytes"}


def test_units_stack_experts_that_are_stored_alone(headers_only: HeadersOnly, one_by_one: Tensors) -> None:
    units = planned(headers_only(one_by_one)).units
    assert [len(unit.tensors) for unit in units] == [4, 2]
    assert [unit.index for unit in units] == [0, 1]


def test_notes_name_idle_rules_and_a_missing_mtp_block(headers_only: HeadersOnly, one_by_one: Tensors) -> None:
    notes = planned(headers_only(one_by_one), "keep-mtp").notes
    assert any("keep-mtp[0]" in note for note in notes)
    assert any("promises an MTP block" in note for note in notes)


def broken(name: str, value: tuple[str, tuple[int, ...], str] | None) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (broken(TEXT + "mlp.experts.down_proj", ("BF16", (2, 32, 64), "b.safetensors")), r"promises \[2, 64, 32\]"),
        (broken(TEXT + "mlp.experts.down_proj", ("BF16", (3, 64, 32), "b.safetensors")), r"promises \[2, 64, 32\]"),
        (broken(TEXT + "mlp.experts.gate_up_proj", ("BF16", (128, 64), "b.safetensors")), r"promises \[2, 64, 64\]"),
        (broken(TEXT + "mlp.experts.gate_up_proj", ("I64", (2, 64, 64), "a.safetensors")), "dtype I64 cannot be"),
        (
            broken("model.language_model.layers.9.mlp.gate.weight", ("BF16", (2, 64), "b.safetensors")),
            "layer 9, the config promises 1 layers",
        ),
        (
            broken(TEXT + "mlp.experts.0.down_proj.weight", ("BF16", (64, 32), "b.safetensors")),
            "lacks the down projection of expert 1",
        ),
    ],
)
def test_what_does_not_fit_is_found_from_headers(
    headers_only: HeadersOnly, toy: Tensors, change: Callable[[Tensors], None], message: str
) -> None:
    change(toy)
    with pytest.raises(PlanError, match=message):
        planned(headers_only(toy))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (broken(TEXT + "mlp.experts.1.up_proj.weight", None), "lacks the up projection of expert 1"),
        (broken(TEXT + "mlp.experts.2.up_proj.weight", ("BF16", (32, 64), "a.safetensors")), "promises 2 experts"),
        (
            broken(TEXT + "mlp.experts.1.up_proj.weight", ("BF16", (64, 32), "a.safetensors")),
            "differs from expert 0's",
        ),
    ],
)
def test_experts_stored_alone_are_complete_and_alike(
    headers_only: HeadersOnly, one_by_one: Tensors, change: Callable[[Tensors], None], message: str
) -> None:
    change(one_by_one)
    with pytest.raises(PlanError, match=message):
        planned(headers_only(one_by_one))


def test_one_layer_in_two_layouts_is_refused(headers_only: HeadersOnly, toy: Tensors, one_by_one: Tensors) -> None:
    with pytest.raises(PlanError, match="written twice"):
        planned(headers_only(toy | one_by_one))


def test_an_indivisible_width_is_found_from_headers(headers_only: HeadersOnly, toy: Tensors) -> None:
    wide = KIMI.model_dump(mode="json")
    wide["formats"]["int4"]["weights"]["group_size"] = 128
    with pytest.raises(PlanError, match="not divisible by group_size 128"):
        planned(headers_only(toy), scheme=Scheme.model_validate(wide))


def test_fused_matrices_that_share_a_scale_have_one_dtype(headers_only: HeadersOnly, one_by_one: Tensors) -> None:
    mixed = {
        name: ("F32" if "up_proj" in name else dtype, shape, shard)
        for name, (dtype, shape, shard) in one_by_one.items()
    }
    planned(headers_only(mixed))
    nvfp4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    scheme = Scheme.model_validate(KIMI.model_dump(mode="json") | {"formats": {"int4": nvfp4}})
    planned(headers_only(one_by_one), scheme=scheme)
    with pytest.raises(PlanError, match=r"gate_up_proj is built from .*gate_proj.* \(BF16\) and .*up_proj.* \(F32\)"):
        planned(headers_only(mixed), scheme=scheme)


def test_a_plan_that_quantizes_nothing_is_refused(headers_only: HeadersOnly, toy: Tensors) -> None:
    with pytest.raises(PlanError, match="quantizes nothing"):
        planned(headers_only(toy), scheme=with_rules({"role": "indexer", "use": "int4"}))


def test_a_policy_in_front_must_go_with_the_scheme(headers_only: HeadersOnly, toy: Tensors) -> None:
    stranger = Policy.model_validate(
        {"schema_version": 1, "name": "odd", "summary": "s", "rules": [{"role": "mlp", "use": "int8"}]}
    )
    with pytest.raises(PlanError, match=r"does not go with odd\[0\]: use: int8 names no format"):
        planned(headers_only(toy), stranger)


def test_many_faults_are_cut_short(headers_only: HeadersOnly, toy: Tensors) -> None:
    for layer in range(1, 39):
        toy[f"model.language_model.layers.{layer}.input_layernorm.weight"] = ("BF16", (64,), "b.safetensors")
    with pytest.raises(PlanError, match="and 30 more"):
        planned(headers_only(toy))


def test_the_same_input_gives_the_same_plan(headers_only: HeadersOnly, toy: Tensors) -> None:
    checkpoint = headers_only(toy)
    assert planned(checkpoint) == planned(replace(checkpoint))
