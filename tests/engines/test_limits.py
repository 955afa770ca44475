"""What engines do not take: a note with the engine and the reason, an error where none does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import schemegen
from schemegen.architectures.base import Part
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import engine_notes
from schemegen.engines.rules import RULES, Kind, Use
from schemegen.engines.serving import VERSIONS
from schemegen.errors import UnsupportedError
from schemegen.formats import storage_of
from schemegen.planner import Plan
from schemegen.scheme import Format
from tests.engines.conftest import FORMATS

MakePlan = Callable[..., Plan]
TEXT = frozenset({Part.TEXT})


def use_of(name: str, kind: Kind, **changes: Any) -> Use:
    format = Format.model_validate(FORMATS[name])
    shapes = frozenset({(512, 2048), (2048, 512)})
    use = Use(kind, format, storage_of(format), storage_of(format), shapes, frozenset({512}), TEXT)
    return replace(use, **changes)


def refusing(use: Use) -> set[str]:
    return {engine for engine, rules in RULES.items() if any(rule(use) for rule in rules)}


W4AFP8 = {"format": Format.model_validate({**FORMATS["w4afp8"], "weights": {"num_bits": 4, "group_size": 128}})}


@pytest.mark.parametrize(
    ("name", "experts", "linear"),
    [
        ("int4", set(), set()),
        ("int4_asym", {"transformers"}, set()),
        ("int8", set(), set()),
        ("w8a8", {"SGLang", "transformers"}, set()),
        ("int8_alone", {"vLLM", "SGLang", "transformers"}, {"vLLM", "SGLang"}),
        ("fp8", set(), set()),
        ("fp8_alone", {"vLLM", "SGLang"}, set()),
        ("fp8_block", {"transformers"}, set()),
        ("nvfp4", {"transformers"}, set()),
        ("mxfp4", set(), {"SGLang"}),
        ("mxfp8", {"SGLang", "transformers"}, {"SGLang"}),
        ("w4afp8", {"vLLM"}, {"vLLM", "SGLang"}),
        ("int3", {"vLLM", "SGLang"}, {"vLLM", "SGLang"}),
    ],
)
def test_who_takes_what(name: str, experts: set[str], linear: set[str]) -> None:
    assert refusing(use_of(name, Kind.EXPERTS)) == experts
    assert refusing(use_of(name, Kind.LINEAR)) == linear


@pytest.mark.parametrize(
    ("use", "engines"),
    [
        (use_of("w4afp8", Kind.EXPERTS, **W4AFP8), set()),
        (use_of("w4afp8", Kind.EXPERTS, **W4AFP8, shapes=frozenset({(128, 2048), (2048, 128)})), {"vLLM"}),
        (use_of("w4afp8", Kind.LINEAR, **W4AFP8, shapes=frozenset({(128, 2048)})), {"SGLang"}),
        (use_of("fp8_block", Kind.LINEAR, stacked=frozenset({64})), {"vLLM", "SGLang"}),
        (use_of("fp8_block", Kind.HEAD), {"SGLang"}),
        (use_of("int4", Kind.EXPERTS, first_storage="float-quantized"), {"SGLang"}),
        (use_of("int8", Kind.LINEAR, first_storage="float-quantized"), set()),
        (use_of("fp8", Kind.LINEAR, parts=frozenset({Part.VISION})), {"SGLang"}),
        (use_of("nvfp4", Kind.EXPERTS, parts=frozenset({Part.MTP})), set()),
    ],
)
def test_it_depends_on_where_a_format_is_used(use: Use, engines: set[str]) -> None:
    assert refusing(use) == engines


def test_a_plan_that_all_take_has_no_notes(mixed_plan: MakePlan) -> None:
    plan = mixed_plan({"role": "routed_expert", "use": "int4"}, {"role": "attention", "part": "text", "use": "int8"})
    assert engine_notes(plan, QWEN3_5_MOE) == ()


def test_a_note_names_the_format_the_engine_and_the_reason(mixed_plan: MakePlan) -> None:
    plan = mixed_plan({"role": "routed_expert", "use": "nvfp4"}, {"role": "attention", "part": "vision", "use": "fp8"})
    assert engine_notes(plan, QWEN3_5_MOE) == (
        "routed experts in format 'nvfp4': transformers 5.17 decodes no nvfp4-pack-quantized experts",
        f"linear layers in format 'fp8': SGLang {VERSIONS['SGLang']} builds the vision tower unquantized",
    )


def test_what_no_engine_takes_is_an_error_with_every_reason(mixed_plan: MakePlan) -> None:
    plan = mixed_plan({"role": "routed_expert", "use": "int8_alone"})
    with pytest.raises(
        UnsupportedError, match=r"no engine takes routed experts in format 'int8_alone': vLLM.*SGLang.*tr"
    ):
        engine_notes(plan, QWEN3_5_MOE)


def test_shapes_are_read_off_the_plan(mixed_plan: MakePlan) -> None:
    """k_proj has 64 rows in the sample, above those of v_proj."""
    notes = engine_notes(mixed_plan({"role": "attention", "part": "text", "use": "fp8_block"}), QWEN3_5_MOE)
    assert [note.partition(": ")[2][:6] for note in notes] == ["vLLM 0", "SGLang"]
    alone = mixed_plan({"role": "attention", "part": "text", "use": "fp8_block", "projection": "o"})
    assert engine_notes(alone, QWEN3_5_MOE) == ()


def test_mxfp4_experts_beside_others_are_noted(mixed_plan: MakePlan) -> None:
    kept = mixed_plan({"part": "mtp", "use": "keep"}, {"role": "routed_expert", "use": "mxfp4"})
    (note,) = engine_notes(kept, QWEN3_5_MOE)
    assert "SGLang" in note
    assert "mtp.layers.0.mlp.experts" in note
    assert engine_notes(mixed_plan({"role": "routed_expert", "use": "mxfp4"}), QWEN3_5_MOE) == ()


def test_experts_in_two_formats_are_noted(mixed_plan: MakePlan) -> None:
    experts = {"role": "routed_expert", "use": "int4"}
    layers = mixed_plan({**experts, "layers": "0", "use": "int8"}, experts)
    assert ["transformers" in note for note in engine_notes(layers, QWEN3_5_MOE)] == [True]
    by_part = mixed_plan({**experts, "part": "mtp", "use": "int8"}, experts)
    assert engine_notes(by_part, QWEN3_5_MOE) == ()


def test_how_far_a_big_model_splits(mixed_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """An expert of the sample is 128 wide: four groups of 32."""
    plan = mixed_plan({"role": "routed_expert", "use": "int4"})
    monkeypatch.setattr("schemegen.engines.limits._SPLIT_BYTES", 0)
    (note,) = engine_notes(plan, QWEN3_5_MOE)
    assert "at most 4 GPUs" in note
    assert engine_notes(mixed_plan({"role": "routed_expert", "use": "int8"}), QWEN3_5_MOE) == ()


def test_plans_carry_the_notes(sample_of: Callable[[str, str], Any]) -> None:
    body = {"schema_version": 1, "name": "t", "summary": "t", "formats": {"f": FORMATS["int4_asym"]}}
    scheme = schemegen.Scheme.model_validate({**body, "policy": [{"role": "routed_expert", "use": "f"}]})
    assert [note for note in schemegen.plan(scheme, sample_of("fused", "fused")).notes if "transformers 5.17" in note]
