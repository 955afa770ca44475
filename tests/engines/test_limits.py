"""What engines do not take: a note with the engine and the reason, an error where none does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import schemegen
from bench.checkpoints import FULL
from bench.schemes import headers_of, plan_of, schemes
from schemegen.architectures.base import Part
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines import check_declaration, engine_modules, engine_notes
from schemegen.engines.limits import refusals, remarks, uses
from schemegen.engines.serving import ENGINES, VERSIONS
from schemegen.engines.uses import Kind, Use
from schemegen.errors import UnsupportedError
from schemegen.formats import storage_of
from schemegen.planner import Plan
from schemegen.scheme import Format, Scheme
from tests.engines.conftest import FORMATS

MakePlan = Callable[..., Plan]
TEXT = frozenset({Part.TEXT})


def use_of(name: str, kind: Kind, **changes: Any) -> Use:
    return replace(use_in(FORMATS[name], kind), **changes)


def use_in(format: Any, kind: Kind) -> Use:
    found = Format.model_validate(format)
    shapes = frozenset({(512, 2048), (2048, 512)})
    return Use(kind, found, storage_of(found), storage_of(found), shapes, frozenset({512}), TEXT)


def notes_of(plan: Plan) -> tuple[str, ...]:
    return engine_notes(plan, QWEN3_5_MOE, engine_modules(plan, QWEN3_5_MOE))


def refusing(use: Use) -> set[str]:
    return set(refusals(use))


INT4_G128 = {"num_bits": 4, "strategy": "group", "group_size": 128}
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
        ("w4afp8", {"vLLM", "SGLang"}, {"vLLM", "SGLang"}),
        ("int3", {"SGLang"}, {"SGLang"}),
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
        (use_of("fp8_block", Kind.HEAD), {"vLLM", "SGLang"}),
        (use_of("fp8", Kind.HEAD), set()),
        (use_of("int4", Kind.EXPERTS, first_storage="float-quantized"), {"SGLang"}),
        (use_of("int8", Kind.LINEAR, first_storage="float-quantized"), set()),
        (use_of("fp8", Kind.LINEAR, parts=frozenset({Part.VISION})), {"SGLang"}),
        (use_of("nvfp4", Kind.EXPERTS, parts=frozenset({Part.MTP})), set()),
    ],
)
def test_it_depends_on_where_a_format_is_used(use: Use, engines: set[str]) -> None:
    assert refusing(use) == engines


BOTH, ALL = {"vLLM", "SGLang"}, set(VERSIONS)
INT8 = {"num_bits": 8, "strategy": "channel"}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
MXFP4 = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}
BLOCK = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}


def with_activations(weights: Any, num_bits: int, kind: str, strategy: str = "token", **more: Any) -> Any:
    storage = more.pop("storage", None)
    activations = {"num_bits": num_bits, "type": kind, "strategy": strategy, "dynamic": True, **more}
    return {"weights": weights, "input_activations": activations, "storage": storage}


@pytest.mark.parametrize(
    ("format", "experts", "linear"),
    [
        (with_activations({**INT8, "num_bits": 6}, 8, "int"), ALL, BOTH),
        (with_activations({**INT8, "num_bits": 4}, 8, "int"), ALL, BOTH),
        (with_activations(INT8, 4, "int"), ALL, BOTH),
        (with_activations(INT8, 8, "int", "tensor"), ALL, BOTH),
        (with_activations(INT8, 8, "float", storage="int-quantized"), ALL, BOTH),
        (with_activations(INT8, 8, "int", symmetric=False), ALL, set()),
        (with_activations({**INT8, "strategy": "tensor"}, 8, "int"), ALL, set()),
        (with_activations({**INT8, "strategy": "group", "group_size": 32}, 8, "int"), ALL, BOTH),
        (with_activations(FP8, 8, "int"), BOTH, BOTH),
        (with_activations(FP8, 3, "float"), BOTH, BOTH),
        (with_activations(FP8, 8, "float", "group", group_size=128), BOTH, BOTH),
        (with_activations(FP8, 8, "float", "tensor"), BOTH, set()),
        (with_activations({**FP8, "strategy": "tensor"}, 8, "float", "tensor"), set(), set()),
        (with_activations(NVFP4, 8, "float"), ALL, BOTH),
        (with_activations(NVFP4, 8, "int"), ALL, BOTH),
        (with_activations(MXFP4, 8, "int"), BOTH, BOTH),
        (with_activations(MXFP4, 8, "float"), {"SGLang"}, {"SGLang"}),
        (with_activations(MXFP4, 4, "float", "group", group_size=32), set(), {"SGLang"}),
        (with_activations(FORMATS["mxfp8"]["weights"], 8, "float"), ALL, BOTH),
        (with_activations(BLOCK, 8, "float"), ALL, BOTH),
        (with_activations(BLOCK, 8, "float", "group", group_size=64), ALL, BOTH),
        (BLOCK, ALL, {"SGLang"}),
        (with_activations({**INT4_G128, "symmetric": False}, 8, "float", storage="pack-quantized"), ALL, BOTH),
        (with_activations(INT4_G128, 8, "float", "tensor", storage="pack-quantized"), BOTH, BOTH),
        (with_activations(INT4_G128, 8, "int", storage="pack-quantized"), BOTH, {"SGLang"}),
        (with_activations(INT4_G128, 8, "int", "tensor", storage="pack-quantized"), BOTH, BOTH),
    ],
)
def test_bits_types_and_strategies_of_weights_and_activations_count(
    format: Any, experts: set[str], linear: set[str]
) -> None:
    """Classes of vLLM and SGLang that look at neither would run something else than what is declared."""
    assert refusing(use_in(format, Kind.EXPERTS)) == experts
    assert refusing(use_in(format, Kind.LINEAR)) == linear


@pytest.mark.parametrize(
    ("num_bits", "size", "symmetric", "experts", "linear"),
    [
        *((bits, size, True, (set(), ""), (set(), "")) for bits in (4, 8) for size in (None, 32, 64, 128)),
        (4, 128, False, ({"transformers"}, ""), (set(), "")),
        (4, 16, True, ({"SGLang"}, "Triton"), ({"SGLang"}, "Humming")),
        (4, 256, True, ({"SGLang"}, "Triton"), ({"SGLang"}, "")),
        (8, 256, True, ({"SGLang"}, "Triton"), ({"SGLang"}, "Humming")),
        (8, 128, False, ({"SGLang", "transformers"}, "Humming"), ({"SGLang"}, "Hopper")),
        (8, 32, False, ({"SGLang", "transformers"}, "Humming"), ({"SGLang"}, "Humming")),
        (8, None, False, ({"vLLM", "SGLang", "transformers"}, ""), ({"SGLang"}, "Hopper")),
        (6, 64, True, ({"SGLang"}, "Humming"), ({"SGLang"}, "Humming")),
        (6, 64, False, ({"SGLang", "transformers"}, "Humming"), ({"SGLang"}, "Humming")),
        (6, None, True, ({"vLLM", "SGLang"}, ""), ({"SGLang"}, "Humming")),
    ],
)
def test_packed_integers_by_bits_and_group_size(
    num_bits: int,
    size: int | None,
    symmetric: bool,
    experts: tuple[set[str], str],
    linear: tuple[set[str], str],
) -> None:
    """Marlin has groups of 32, 64 and 128; what vLLM runs otherwise is a remark, not a refusal."""
    strategy = {"strategy": "channel"} if size is None else {"strategy": "group", "group_size": size}
    format = {"num_bits": num_bits, "symmetric": symmetric, **strategy}
    for kind, (engines, remark) in ((Kind.EXPERTS, experts), (Kind.LINEAR, linear)):
        use = use_in(format, kind)
        assert refusing(use) == engines
        assert remark in remarks(use).get("vLLM", "")
        assert bool(remark) == ("vLLM" in remarks(use))


def test_what_vllm_has_optional_kernels_for() -> None:
    mxfp4 = use_in(with_activations(MXFP4, 8, "float"), Kind.EXPERTS)
    packed = use_in(with_activations(INT4_G128, 8, "int", storage="pack-quantized"), Kind.LINEAR)
    assert "Humming kernels for FP8 activations" in remarks(mxfp4)["vLLM"]
    assert "Humming kernels for INT activations" in remarks(packed)["vLLM"]


@pytest.mark.parametrize("blocks", [[64, 64], [128, 64], [64, 128]])
def test_blocks_of_other_sizes(blocks: list[int]) -> None:
    weights = {**BLOCK, "block_structure": blocks}
    use = use_in(with_activations(weights, 8, "float", "group", group_size=blocks[1]), Kind.LINEAR)
    assert refusing(use) == {"vLLM"}
    assert "Triton" in remarks(use)["SGLang"]
    assert remarks(use_of("fp8_block", Kind.LINEAR)) == {}


@pytest.mark.parametrize(("shape", "noted"), [((384, 128), True), ((200, 256), True), ((256, 256), False)])
def test_blocks_that_are_guessed_from_shapes(shape: tuple[int, int], noted: bool) -> None:
    found = remarks(use_of("fp8_block", Kind.LINEAR, shapes=frozenset({shape})))
    assert ("newer than 0.17" in found.get("transformers", "")) is noted


FULL_HEADERS = headers_of(FULL)
SCHEMES = schemes()
#: Engines that nothing speaks against and that a scheme does not name: each with its reason.
UNNAMED = {
    ("w4a16-g32-signed", "sglang"): "scales below zero were tried in none of its kernels",
    ("w4a16-g128-signed", "sglang"): "scales below zero were tried in none of its kernels",
    ("w4afp8", "transformers"): "decodes the experts and leaves activations as they are, which is another scheme",
}


@pytest.mark.parametrize("scheme", SCHEMES, ids=[scheme.name for scheme in SCHEMES])
def test_schemes_name_the_engines_that_take_them(scheme: Scheme) -> None:
    """On the full-size layout."""
    found = uses(plan_of(scheme, FULL_HEADERS), QWEN3_5_MOE)
    refused = {engine for _, use in found for engine in refusals(use)}
    taking = {word for word, engine in ENGINES.items() if engine not in refused}
    assert set(scheme.served_by) <= taking
    assert taking - set(scheme.served_by) == {engine for name, engine in UNNAMED if name == scheme.name}


def test_an_engine_tells_all_its_reasons() -> None:
    use = use_of("int3", Kind.LINEAR, parts=frozenset({Part.VISION}))
    assert refusals(use)["SGLang"] == (
        "builds the vision tower unquantized; it also has no kernels for integers of 3 bits; take 4 or 8"
    )


def test_experts_whose_activations_nothing_quantizes_are_refused(mixed_plan: MakePlan) -> None:
    """transformers would decode the weights, and leave the activations alone."""
    with pytest.raises(UnsupportedError, match=r"no engine.*transformers 5\.17 decodes experts and leaves their act"):
        notes_of(mixed_plan({"role": "routed_expert", "use": "w4afp8"}))
    plain = notes_of(mixed_plan({"role": "routed_expert", "use": "fp8"}))
    assert plain == ()


def test_what_needs_an_option_is_no_refusal(
    mixed_plan: MakePlan, formats: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(formats, "int3_asym", {**FORMATS["int3"], "symmetric": False})
    notes = notes_of(mixed_plan({"role": "routed_expert", "use": "int3_asym"}))
    assert [note.partition(": ")[2].split()[0] for note in notes] == ["SGLang", "transformers", "vLLM"]
    assert "optional Humming kernels for asymmetric INT3 in groups of 64" in notes[2]


def test_a_plan_that_all_take_has_no_notes(mixed_plan: MakePlan) -> None:
    plan = mixed_plan(
        {"role": "routed_expert", "part": "text", "use": "int4"}, {"role": "attention", "part": "text", "use": "int8"}
    )
    assert notes_of(plan) == ()


def test_a_note_names_the_format_the_engine_and_the_reason(mixed_plan: MakePlan) -> None:
    plan = mixed_plan({"role": "routed_expert", "use": "nvfp4"}, {"role": "attention", "part": "vision", "use": "fp8"})
    assert notes_of(plan) == (
        "routed experts in format 'nvfp4': transformers 5.17 decodes no nvfp4-pack-quantized experts",
        f"linear layers in format 'fp8': SGLang {VERSIONS['SGLang']} builds the vision tower unquantized",
        r"re:.*visual\..* cannot stand in ignore, for it hits model.visual.blocks.0.attn.proj, which is quantized: "
        "12 kept modules are named by place there",
    )


def test_what_no_engine_takes_is_an_error_with_every_reason(mixed_plan: MakePlan) -> None:
    plan = mixed_plan({"role": "routed_expert", "use": "int8_alone"})
    with pytest.raises(
        UnsupportedError, match=r"no engine takes routed experts in format 'int8_alone': vLLM.*SGLang.*tr"
    ):
        notes_of(plan)


def test_shapes_are_read_off_the_plan(mixed_plan: MakePlan) -> None:
    """k_proj has 64 rows in the sample, above those of v_proj."""
    notes = notes_of(mixed_plan({"role": "attention", "part": "text", "use": "fp8_block"}))
    assert [note.partition(": ")[2].split()[0] for note in notes] == ["vLLM", "SGLang", "transformers"]
    alone = mixed_plan({"role": "attention", "part": "text", "use": "fp8_block", "projection": "o"})
    assert [note.partition(": ")[2].split()[0] for note in notes_of(alone)][:-1] == ["transformers"]
    assert "cannot stand in ignore" in notes_of(alone)[-1]


def test_mxfp4_experts_beside_others_are_noted(mixed_plan: MakePlan) -> None:
    kept = mixed_plan({"part": "mtp", "use": "keep"}, {"role": "routed_expert", "use": "mxfp4"})
    (note,) = notes_of(kept)
    assert "SGLang" in note
    assert "mtp.layers.0.mlp.experts" in note
    assert notes_of(mixed_plan({"role": "routed_expert", "use": "mxfp4"})) == ()


def test_experts_in_two_formats_are_noted(mixed_plan: MakePlan) -> None:
    experts = {"role": "routed_expert", "use": "int4"}
    layers = mixed_plan({**experts, "layers": "0", "use": "int8"}, experts)
    assert ["transformers" in note for note in notes_of(layers)] == [True]
    by_part = mixed_plan({**experts, "part": "mtp", "use": "int8"}, experts)
    assert notes_of(by_part) == ()


def test_the_modules_are_those_of_the_checked_declaration(mixed_plan: MakePlan) -> None:
    plan = mixed_plan({"part": "mtp", "use": "keep"}, {"role": "routed_expert", "use": "mxfp4"})
    assert check_declaration(plan, QWEN3_5_MOE) == engine_modules(plan, QWEN3_5_MOE)
    with pytest.raises(UnsupportedError, match="keep it"):
        check_declaration(mixed_plan({"role": "router", "use": "int8"}), QWEN3_5_MOE)


def test_how_far_a_big_model_splits(mixed_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """An expert of the sample is 128 wide: four groups of 32."""
    plan = mixed_plan({"role": "routed_expert", "use": "int4"})
    monkeypatch.setattr("schemegen.engines.limits._SPLIT_BYTES", 0)
    (note,) = notes_of(plan)
    assert "at most 4 GPUs" in note
    assert notes_of(mixed_plan({"role": "routed_expert", "use": "int8"})) == ()


def test_plans_carry_the_notes(sample_of: Callable[[str, str], Any]) -> None:
    body = {"schema_version": 1, "name": "t", "summary": "t", "formats": {"f": FORMATS["int4_asym"]}}
    scheme = schemegen.Scheme.model_validate({**body, "policy": [{"role": "routed_expert", "use": "f"}]})
    assert [note for note in schemegen.plan(scheme, sample_of("fused", "fused")).notes if "transformers 5.17" in note]


def test_a_pattern_that_would_hit_what_is_quantized_is_a_note(mixed_plan: MakePlan) -> None:
    plan = mixed_plan(
        {"role": "attention", "part": "mtp", "use": "keep"},
        {"role": "attention", "part": "text", "use": "int8"},
        {"role": "routed_expert", "use": "int8"},
    )
    told = engine_notes(plan, QWEN3_5_MOE, check_declaration(plan, QWEN3_5_MOE))
    found = [note for note in told if "cannot stand in ignore" in note]
    assert [note.partition(" ")[0] for note in found] == [r"re:.*mtp\..*", r"re:.*self_attn\..*"]
    assert all(note.endswith("which is quantized: 5 kept modules are named by place there") for note in found)


def test_patterns_that_are_used_are_no_note(make_plan: MakePlan) -> None:
    for front in ((), ("keep-mtp",)):
        plan = make_plan(*front)
        told = engine_notes(plan, QWEN3_5_MOE, check_declaration(plan, QWEN3_5_MOE))
        assert not [note for note in told if "ignore" in note]
