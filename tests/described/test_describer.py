"""A scheme told from a checkpoint makes that checkpoint again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import schemegen
from bench.schemes import schemes
from schemegen.architectures.base import Part, Role
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.model import Checkpoint
from schemegen.engines import declare
from schemegen.errors import CheckpointError, PlanError, UnknownNameError, UnsupportedError
from schemegen.planner import Plan
from schemegen.rule import Rule
from schemegen.scheme import Scheme

if TYPE_CHECKING:
    from tests.described.conftest import Describe, PlanOf, Quantized

SCHEMES = schemes()
Entry = str | dict[str, Any]


def policy_of(scheme: Scheme) -> list[Entry]:
    """A policy in plain values."""
    told = [
        entry.model_dump(mode="json", exclude_unset=True) if isinstance(entry, Rule) else entry
        for entry in scheme.policy
    ]
    return list(told)


def stored(plan: Plan) -> list[tuple[str, str, tuple[int, ...]]]:
    """Every tensor that a plan writes."""
    return [(output.name, output.dtype, output.shape) for tensor in plan.tensors for output in tensor.outputs]


@pytest.mark.parametrize("layout", ["fused", "alone"])
@pytest.mark.parametrize("scheme", SCHEMES, ids=[scheme.name for scheme in SCHEMES])
def test_every_shipped_scheme_is_told_from_its_output(
    scheme: Scheme,
    layout: str,
    sources: Mapping[str, Checkpoint],
    written: Callable[[Plan, Checkpoint], Checkpoint],
    plan: PlanOf,
    describe: Describe,
) -> None:
    source, made = sources[layout], plan(scheme, sources[layout])
    told = describe(written(made, source)).scheme
    again = plan(told, source)
    assert stored(again) == stored(made)
    assert declare(again, QWEN3_5_MOE) == declare(made, QWEN3_5_MOE)
    if all(isinstance(entry, str) for entry in scheme.policy):
        assert told.policy == scheme.policy


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (
            [{"role": "attention", "part": "text", "projection": ["q", "k", "v"], "use": "int8"}],
            [{"role": "attention", "part": "text", "projection": ["q", "k", "v"], "use": "int8"}],
        ),
        (
            ["keep-first-last", "keep-mtp", {"role": "routed_expert", "use": "int4"}, {"use": "int8"}],
            [
                "keep-first-last",
                "keep-mtp",
                {"role": "routed_expert", "use": "int4"},
                {"role": "*", "use": "int8"},
            ],
        ),
        (["keep-first-last", "keep-mtp", "all-linear"], ["keep-first-last", "keep-mtp", "all-linear"]),
        (
            [{"role": "routed_expert", "part": "mtp", "use": "int4"}],
            [{"role": "routed_expert", "part": "mtp", "use": "int4"}],
        ),
        (
            [{"role": "routed_expert", "layers": "0,2-3", "use": "int4"}],
            [{"role": "routed_expert", "layers": "0,2-3", "use": "int4"}],
        ),
        (
            [{"role": "attention", "part": "vision", "use": "int8"}, {"role": "projector", "use": "int8"}],
            [{"role": "attention", "part": "vision", "use": "int8"}, {"role": "projector", "use": "int8"}],
        ),
        (
            ["keep-vision", {"role": ["attention", "mlp"], "use": "int8"}],
            ["keep-linear-attention", "attention-only"],
        ),
        (["keep-attention", "keep-mtp", "all-linear"], ["keep-attention", "keep-mtp", "all-linear"]),
        (
            ["keep-mtp", {"role": "lm_head", "use": "int8"}, {"role": "routed_expert", "use": "int4"}, {"use": "int8"}],
            [
                "keep-mtp",
                {"role": "routed_expert", "use": "int4"},
                {"role": "lm_head", "use": "int8"},
                {"role": "*", "use": "int8"},
            ],
        ),
    ],
    ids=["qkv", "first-last", "named", "mtp", "layers", "vision", "no-vision", "no-attention", "head"],
)
def test_the_policy_is_short_and_speaks_of_roles(
    rules: list[Entry], told: list[Entry], quantized: Quantized, describe: Describe
) -> None:
    named = [entry if isinstance(entry, dict) or entry.startswith("keep") else {"use": "int8"} for entry in rules]
    found = describe(quantized(*named)).scheme
    assert policy_of(found) == told


def test_one_expert_apart_is_told_by_its_name(quantized: Quantized, describe: Describe, plan: PlanOf) -> None:
    name = r"re:.*\.layers\.[12]\.mlp\.experts\.3\."
    checkpoint = quantized(
        {"role": "routed_expert", "name": name, "use": "int8"}, {"role": "routed_expert", "use": "int4"}
    )
    found = describe(checkpoint)
    first, second = found.scheme.policy
    assert isinstance(first, Rule)
    assert first.use == "int8"
    assert first.name == (
        r"re:model\.language_model\.layers\.(1|2)\.mlp\.experts\.3\.(gate_proj|up_proj|down_proj)\.weight$"
    )
    assert isinstance(second, Rule)
    assert (second.role, second.use, second.name) == (Role.ROUTED_EXPERT, "int4", None)
    assert any("fit this model alone" in line for line in found.remarks)
    assert {(t.name, t.dtype, t.shape) for t in checkpoint.tensors} == set(stored(plan(found.scheme)))


_RULES = st.fixed_dictionaries(
    {"use": st.sampled_from(["int4", "int8", "keep"])},
    optional={
        "role": st.sampled_from(["routed_expert", "attention", "shared_expert", "linear_attention", "lm_head", "mlp"])
        | st.just(["attention", "shared_expert"]),
        "part": st.sampled_from(list(map(str, (Part.TEXT, Part.MTP, Part.VISION)))),
        "layers": st.sampled_from(["0", "1-2", "-1", "0,3"]),
        "projection": st.sampled_from(["q", "gate", "down", "out"]) | st.just(["q", "k"]),
        "name": st.sampled_from([r"re:.*\.[02]\.", r"re:.*[kz]_proj", r"re:.*experts\.\d*[13]\."]),
    },
).filter(lambda rule: rule.get("part") != "vision" or "role" in rule)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(rules=st.lists(_RULES, min_size=1, max_size=4))
def test_whatever_the_policy_was_the_planner_decides_the_same_by_what_is_told(
    rules: list[dict[str, Any]], quantized: Quantized, describe: Describe, plan: PlanOf
) -> None:
    try:
        checkpoint = quantized(*rules)
    except (schemegen.SchemegenError, ValueError):
        reject()  # no policy, or one that quantizes nothing
    again = plan(describe(checkpoint).scheme)
    assert {(t.name, t.dtype, t.shape) for t in checkpoint.tensors} == set(stored(again))


ATTENTION = {"int4": ["re:.*self_attn\\..*"]}
EXPERT_TARGETS = {"int4": ["re:.*(gate|up)_proj$"], "int8": ["re:.*down_proj$"]}
DOWN: dict[str, Any] = {"role": "routed_expert", "projection": "down", "use": "int8"}


@pytest.mark.parametrize(
    "rules",
    [
        [{"layers": "0", "use": "keep"}, DOWN, {"role": "routed_expert", "use": "int4"}],
        ["keep-first-last", "keep-mtp", DOWN, {"role": "routed_expert", "use": "int4"}],
        [{"role": "routed_expert", "layers": "1,3", "projection": ["gate", "up"], "use": "int4"}],
        [{"role": "routed_expert", "part": "mtp", "projection": "down", "use": "int8"}],
        [{**DOWN, "layers": "-2--1"}],
        [{"role": "routed_expert", "name": "re:.*layers\\.[12]\\.mlp\\.experts\\.down_proj", "use": "int8"}],
    ],
)
def test_experts_that_are_stacked_where_they_are_kept(
    rules: list[Entry], quantized: Quantized, describe: Describe, plan: PlanOf, sources: Mapping[str, Checkpoint]
) -> None:
    source = sources["fused"]
    made = quantized(*rules, targets=EXPERT_TARGETS, source=source)
    again = plan(describe(made).scheme, source)
    names = {output.name for tensor in again.tensors for output in tensor.outputs}
    assert names == {tensor.name for tensor in made.tensors}


def test_what_no_rule_by_place_tells_is_told_by_name(
    monkeypatch: pytest.MonkeyPatch,
    quantized: Quantized,
    describe: Describe,
    plan: PlanOf,
    sources: Mapping[str, Checkpoint],
) -> None:
    made = quantized(DOWN, {"role": "attention", "part": "text", "use": "int4"}, targets=EXPERT_TARGETS | ATTENTION)
    monkeypatch.setattr("schemegen.described.choice.Choice.best", lambda self: None)
    told = describe(made).scheme
    assert all(isinstance(rule, Rule) and rule.name for rule in told.policy)
    again = plan(told, sources["alone"])
    assert {name for name, _, _ in stored(again)} == {tensor.name for tensor in made.tensors}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("choice.Choice.best", r"\S+ would be int8: INT8|\S+ would be \S+, and is stored "),
        ("describer.scheme_name", "name: String should"),
        ("describer.resolve_rules", "scheme x: policy.0: never decides"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, broken: str, why: str, quantized: Quantized, describe: Describe
) -> None:
    def refuse(*_: object) -> None:
        raise PlanError("scheme x: policy.0: never decides")

    stands = {"choice.Choice.best": lambda self: (), "describer.scheme_name": lambda _: "No Name"}
    made = quantized(DOWN, targets=EXPERT_TARGETS)
    monkeypatch.setattr(f"schemegen.described.{broken}", stands.get(broken, refuse))
    with pytest.raises(UnsupportedError, match=f"cannot be told as a scheme: ({why})"):
        describe(made)


def test_an_output_on_disk_is_told_with_a_hint_at_its_manifest(finished: Path) -> None:
    told = schemegen.describe(finished).scheme
    assert (told.name, told.policy, list(told.formats)) == ("out-described", ("experts-only",), ["int4"])


@pytest.mark.parametrize("name", ["w4a16-g128-asym", "fp8-block", "nvfp4a16", "w4afp8", "int4-int8-mix-lm-head"])
def test_what_is_told_of_files_on_disk_plans_those_files(name: str, sample_folder: Path, tmp_path: Path) -> None:
    made = schemegen.apply(name, sample_folder, tmp_path / "made")
    told = schemegen.plan(schemegen.describe(made.path).scheme, sample_folder)
    assert told.outputs == made.plan.outputs


def test_a_block_that_quantizes_nothing_is_refused(
    quantized: Quantized, describe: Describe, sources: Mapping[str, Checkpoint]
) -> None:
    checkpoint = replace(quantized({"use": "int8"}), tensors=sources["alone"].tensors)
    with pytest.raises(CheckpointError, match="no tensor is stored quantized"):
        describe(checkpoint)


def test_an_unknown_family_is_told_by_its_type(quantized: Quantized, describe: Describe) -> None:
    checkpoint = quantized({"use": "int8"})
    with pytest.raises(UnknownNameError, match="model_type 'kimi_k25'"):
        describe(replace(checkpoint, config={**checkpoint.config, "model_type": "kimi_k25"}))


def test_the_sample_is_in_full_precision(sample_folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="is not quantized"):
        schemegen.describe(sample_folder)


def test_whoever_describes_nothing_does_not_import_this() -> None:
    code = "import sys, schemegen.api; print([name for name in sys.modules if 'described' in name])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
