"""Quantized sources are told from what only sounds quantized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint, TensorHeader
from schemegen.checkpoint.quantized import find_quantization, refuse_quantized
from schemegen.errors import UnsupportedError

BLOCK = {"quant_method": "fp8"}


@pytest.fixture
def plain(toy: Path) -> Checkpoint:
    """A checkpoint in full precision."""
    checkpoint = open_local(toy)
    return replace(checkpoint, tensors=checkpoint.tensors[:2])


def with_tensors(checkpoint: Checkpoint, *tensors: str) -> Checkpoint:
    """The checkpoint with tensors spelled "name" (F32) or "name DTYPE"."""
    parts = [tensor.partition(" ") for tensor in tensors]
    headers = (TensorHeader(name, dtype or "F32", (2, 2), "one.safetensors", 0, 16) for name, _, dtype in parts)
    return replace(checkpoint, tensors=tuple(headers))


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"quantization_config": BLOCK}, "quantization_config"),
        ({"compression_config": BLOCK}, "compression_config"),
        ({"quantization": {"bits": 4, "group_size": 64}}, "quantization"),
        ({"text_config": {"quantization_config": BLOCK}}, "text_config.quantization_config"),
        ({"a": {"b": [{"c": 1}, {"quantization": "mlx"}]}}, "a.b.1.quantization"),
    ],
)
def test_a_quantization_block_is_found_at_any_depth(plain: Checkpoint, config: dict[str, Any], path: str) -> None:
    assert find_quantization(replace(plain, config=config)) == f"config.json has {path}"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"quantization_config": None},
        {"quantization_config": {}},
        {"text_config": {"quantization_config": None, "compression_config": {}, "quantization": False}},
        {"quantization_note": "none"},
        {"torch_dtype": "bfloat16"},
    ],
)
def test_a_block_that_says_nothing_is_none(plain: Checkpoint, config: dict[str, Any]) -> None:
    assert find_quantization(replace(plain, config=config)) is None


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        (["m.weight", "m.weight_scale"], "m.weight_scale"),
        (["m.weight", "m.weight_scale_inv"], "m.weight_scale_inv"),
        (["m.weight", "m.weight_scale_2"], "m.weight_scale_2"),
        (["m.weight", "m.input_scale"], "m.input_scale"),
        (["m.weight_packed"], "m.weight_packed"),
        (["m.weight_zero_point"], "m.weight_zero_point"),
        (["m.weight_global_scale"], "m.weight_global_scale"),
        (["m.weight_shape I64"], "m.weight_shape"),
        (["self_attn.k_scale"], "self_attn.k_scale"),
        (["m.qweight"], "m.qweight"),
        (["m.qzeros"], "m.qzeros"),
        (["m.g_idx"], "m.g_idx"),
        (["m.weight", "m.scales", "m.biases"], "m.scales"),
        (["m.weight", "m.scale"], "m.scale"),
        (["m.weight", "m.weight.absmax"], "m.weight.absmax"),
        (["m.weight", "m.weight.quant_map"], "m.weight.quant_map"),
        (["m.weight", "m.weight.quant_state.bitsandbytes__nf4"], "m.weight.quant_state.bitsandbytes__nf4"),
        (["m.weight", "m.SCB"], "m.SCB"),
        (["experts.gate_up_proj_blocks U8"], "experts.gate_up_proj_blocks"),
        (["experts.gate_up_proj_scales U8"], "experts.gate_up_proj_scales"),
        (["experts.down_proj", "experts.down_proj_scale"], "experts.down_proj_scale"),
        (["experts.down_proj_scale_inv"], "experts.down_proj_scale_inv"),
        (["w13", "w13_scale"], "w13_scale"),
        (["m.lin.weight", "m.lin_scale"], "m.lin_scale"),
    ],
)
def test_what_only_quantized_weights_have_is_found(plain: Checkpoint, tensors: list[str], found: str) -> None:
    assert find_quantization(with_tensors(plain, *tensors)) == f"tensor {found!r} belongs to a quantized weight"


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        ("m.weight F8_E4M3", "tensor 'm.weight' is stored as F8_E4M3"),
        ("m.anything F8_E8M0", "tensor 'm.anything' is stored as F8_E8M0"),
        ("m.weight F4", "tensor 'm.weight' is stored as F4"),
        ("m.weight F6_E3M2", "tensor 'm.weight' is stored as F6_E3M2"),
        ("m.weight U8", "weight 'm.weight' is stored as U8"),
        ("m.weight I8", "weight 'm.weight' is stored as I8"),
        ("m.weight U32", "weight 'm.weight' is stored as U32"),
        ("experts.down_proj U8", "weight 'experts.down_proj' is stored as U8"),
    ],
)
def test_a_low_dtype_is_found(plain: Checkpoint, tensor: str, found: str) -> None:
    assert find_quantization(with_tensors(plain, tensor)) == found


@pytest.mark.parametrize(
    "tensors",
    [
        ["layers.0.router.proj.weight", "layers.0.router.scale", "layers.0.router.per_expert_scale"],
        ["layers.0.layer_scalar", "layers.0.weight"],
        ["logit_scale", "text.weight"],
        ["audio.attn.per_dim_scale", "audio.attn.q_proj.weight"],
        ["hc_attn_scale", "hc_attn_base", "hc_attn_fn"],
        ["norm.scale"],
        ["vision_blocks", "blocks.0.weight"],
        ["mlp.gate.weight", "mlp.gate.tid2eid I64", "mlp.gate.e_score_correction_bias"],
        ["m.position_ids I64", "m.mask BOOL"],
        ["weight_scaler.weight", "scales_up.weight", "downscale.weight"],
    ],
)
def test_what_only_sounds_quantized_is_none(plain: Checkpoint, tensors: list[str]) -> None:
    assert find_quantization(with_tensors(plain, *tensors)) is None


def test_the_refusal_says_what_to_give(plain: Checkpoint) -> None:
    refuse_quantized(plain)
    with pytest.raises(
        UnsupportedError, match=r"^toy is quantized already: config.json has quantization_config; .*give"
    ):
        refuse_quantized(replace(plain, config={"quantization_config": BLOCK}))


def test_a_real_folder_is_looked_at_as_a_whole(tmp_path: Path, write_checkpoint: Callable[..., Path]) -> None:
    tensors = {"a.weight": ("F8_E4M3", (1, 1), b"a"), "a.weight_scale_inv": ("F32", (1, 1), b"aaaa")}
    assert find_quantization(open_local(write_checkpoint(tmp_path / "x", tensors, {}))) is not None


def test_the_sample_is_in_full_precision(sample_folder: Path) -> None:
    assert find_quantization(open_local(sample_folder)) is None
