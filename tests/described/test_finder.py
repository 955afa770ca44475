"""Which group a stored module belongs to, and what contradicts every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from schemegen.checkpoint.model import TensorHeader
from schemegen.errors import CheckpointError

if TYPE_CHECKING:
    from tests.described.conftest import Describe, Quantized

MIX: tuple[dict[str, Any], ...] = ({"role": "routed_expert", "use": "int4"}, {"role": "attention", "use": "int8"})
EXPERT = "model.language_model.layers.0.mlp.experts.0.gate_proj"


@pytest.mark.parametrize(
    "targets",
    [
        {
            "int4": [r"re:.*mlp\.experts\.\d+\.(gate|up|down)_proj$"],
            "int8": [r"re:.*self_attn.*", "re:.*attn.qkv", "re:.*attn.proj"],
        },
        {"int4": ["Linear"], "int8": ["re:.*attn.*"]},
        {"int4": ["re:.*experts.*"], "int8": ["Linear"]},
        {"int4": [r"re:.*mlp\.experts$"], "int8": ["Linear"]},
        {"int4": ["Linear"], "int8": ["Linear"]},
        {"int4": ["re:.*"], "int8": ["re:.*"]},
    ],
    ids=["regexes", "class-and-regex", "regex-and-class", "container", "classes", "everything"],
)
def test_names_come_before_classes_and_what_is_stored_before_both(
    quantized: Quantized, describe: Describe, targets: Mapping[str, Sequence[str]]
) -> None:
    found = describe(quantized(*MIX, targets=targets)).scheme
    assert [
        entry.model_dump(mode="json", exclude_unset=True) for entry in found.policy if not isinstance(entry, str)
    ] == [
        {"role": "routed_expert", "use": "int4"},
        {"role": "attention", "use": "int8"},
    ]


def test_linear_layers_are_asked_before_other_classes(quantized: Quantized, describe: Describe) -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
    block = {
        "config_groups": {
            "convolutions": {"targets": ["Conv2d"], "weights": {**weights, "observer": "mse"}},
            "group_0": {"targets": ["Linear"], "weights": weights},
        }
    }
    (format,) = describe(quantized(MIX[0], block=block)).scheme.formats.values()
    assert format.weights.observer == "minmax"


def test_fused_names_and_vllms_spelling_are_known(quantized: Quantized, describe: Describe) -> None:
    targets = {"int8": [f"language_model.model.layers.3.self_attn.{name}" for name in ("qkv_proj", "o_proj")]}
    rule = {"role": "attention", "part": "text", "use": "int8"}
    assert describe(quantized(rule, targets=targets)).scheme.policy


def test_kimis_block_fits_whoever_quantizes_experts_alone(quantized: Quantized, describe: Describe) -> None:
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    found = describe(quantized(MIX[0], block={"ignore": ignore}))
    assert found.scheme.policy == ("experts-only",)
    assert not any("ignore" in line for line in found.remarks)


@pytest.mark.parametrize(
    ("targets", "told"),
    [(["re:.*self_attn.*"], "no group of config.json has it as a target"), ([], "no group of config.json has it")],
)
def test_a_module_that_no_group_has_is_named(
    quantized: Quantized, describe: Describe, targets: Sequence[str], told: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"module {EXPERT} is stored quantized, .*{told}"):
        describe(quantized(MIX[0], targets={"int4": targets}))


@pytest.mark.parametrize(
    ("suffix", "header", "told"),
    [
        ("weight_scale", None, "weight_scale is missing"),
        ("weight_shape", None, "weight_shape is missing"),
        ("weight_scale", ("BF16", (128, 4)), r"weight_scale is BF16 \[128, 4\], where BF16 \[128, 8\] is due"),
        ("weight_scale", ("U8", (128, 8)), r"weight_scale is U8"),
        ("weight_packed", ("I32", (128, 64)), "is due"),
        ("weight_packed", ("I64", (128, 32)), "is no matrix"),
        ("weight_packed", ("I32", (8, 128, 32)), "is no matrix"),
        ("weight_zero_point", ("I32", (16, 8)), "weight_zero_point is stored, where none is due"),
        ("weight", ("BF16", (128, 256)), "weight is stored, where none is due"),
    ],
)
def test_a_tensor_that_contradicts_its_group_is_named(
    quantized: Quantized, describe: Describe, suffix: str, header: tuple[str, tuple[int, ...]] | None, told: str
) -> None:
    checkpoint = quantized(MIX[0])
    name = f"{EXPERT}.{suffix}"
    tensors = [tensor for tensor in checkpoint.tensors if tensor.name != name]
    if header is not None:
        tensors.append(TensorHeader(name, *header, tensors[0].shard, 0, 0))
    with pytest.raises(CheckpointError, match=told) as caught:
        describe(replace(checkpoint, tensors=tuple(tensors)))
    assert f"module {EXPERT} is stored quantized" in str(caught.value)
    assert "group_0" in str(caught.value) or "int4: " in str(caught.value)


def test_a_shape_in_32_bits_is_kimis_own(quantized: Quantized, describe: Describe) -> None:
    checkpoint = quantized(MIX[0])
    tensors = [
        replace(tensor, dtype="I32") if tensor.name.endswith("weight_shape") else tensor
        for tensor in checkpoint.tensors
    ]
    assert describe(replace(checkpoint, tensors=tuple(tensors))).scheme.policy == ("experts-only",)


def test_scales_of_caches_and_activations_are_no_modules(quantized: Quantized, describe: Describe) -> None:
    checkpoint = quantized(MIX[0])
    attention = "model.language_model.layers.3.self_attn"
    more = [f"{attention}.k_scale", f"{attention}.v_scale", f"{EXPERT}.input_scale", f"{EXPERT}.weight_g_idx"]
    extra = [TensorHeader(name, "F32", (1,), checkpoint.tensors[0].shard, 0, 0) for name in more]
    assert describe(replace(checkpoint, tensors=(*checkpoint.tensors, *extra))).scheme.policy == ("experts-only",)
