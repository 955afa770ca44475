"""Where a quantization_config stands, what is read of it, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from schemegen.described.block import read_block
from schemegen.errors import CheckpointError, UnsupportedError

if TYPE_CHECKING:
    from tests.described.conftest import Quantized

KIMI: Mapping[str, Any] = {
    "config_groups": {
        "group_0": {
            "input_activations": None,
            "output_activations": None,
            "targets": ["Linear"],
            "weights": {
                "actorder": None,
                "block_structure": None,
                "dynamic": False,
                "group_size": 32,
                "num_bits": 4,
                "observer": "minmax",
                "observer_kwargs": {},
                "strategy": "group",
                "symmetric": True,
                "type": "int",
            },
        }
    },
    "format": "pack-quantized",
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
}
GROUP = KIMI["config_groups"]["group_0"]


def changed(**weights: Any) -> dict[str, Any]:
    """Kimi's block with other arguments of its weights."""
    return {**KIMI, "config_groups": {"group_0": {**GROUP, "weights": {**GROUP["weights"], **weights}}}}


def with_group(**fields: Any) -> dict[str, Any]:
    """Kimi's block with other fields of its group."""
    return {**KIMI, "config_groups": {"group_0": {**GROUP, **fields}}}


def test_kimis_own_block_is_read(quantized: Quantized) -> None:
    block = read_block(quantized({"use": "int8"}, block=KIMI))
    (group,) = block.config_groups.values()
    assert (group.targets, group.weights.group_size, block.ignore[0]) == (("Linear",), 32, "lm_head")


@pytest.mark.parametrize(
    "config",
    [
        {"compression_config": KIMI},
        {"compression_config": {"quantization_config": KIMI}},
        {"text_config": {"quantization_config": KIMI}},
    ],
    ids=["old", "older", "nested"],
)
def test_the_block_is_found_in_each_of_its_places(quantized: Quantized, config: Mapping[str, Any]) -> None:
    checkpoint = quantized({"use": "int8"})
    own = {name: value for name, value in checkpoint.config.items() if name != "quantization_config"}
    assert list(read_block(replace(checkpoint, config={**own, **config})).config_groups) == ["group_0"]


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        ({"group_size": -1, "strategy": "channel"}, "group_size", None),
        ({"group_size": -1, "strategy": None}, "strategy", "channel"),
        ({"group_size": None, "strategy": "block", "block_structure": "128x128"}, "block_structure", (128, 128)),
        ({"actorder": False}, "actorder", None),
        ({"type": "INT"}, "type", "int"),
        ({"observer": "memoryless_minmax"}, "observer", "minmax"),
        ({"observer": "memoryless_mse"}, "observer", "mse"),
        ({"observer": "imatrix_mse"}, "observer", "imatrix_mse"),
        ({"observer_kwargs": None}, "observer_kwargs", {}),
        ({"symmetric": False, "zp_dtype": "torch.int8"}, "zp_dtype", None),
        ({"symmetric": False, "zp_dtype": "torch.float8_e4m3fn"}, "zp_dtype", "float8_e4m3fn"),
        ({"scale_dtype": "torch.uint8"}, "scale_dtype", "uint8"),
    ],
)
def test_arguments_of_every_release_are_read(
    quantized: Quantized, arguments: Mapping[str, Any], field: str, value: object
) -> None:
    block = read_block(quantized({"use": "int8"}, block=changed(**arguments)))
    assert getattr(block.config_groups["group_0"].weights, field) == value


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"config_groups": []}, "config_groups: is no object"),
        ({"config_groups": None}, "config_groups: is no object"),
        ({"config_groups": {}}, "config_groups: is empty"),
        ({"config_groups": {"group_0": ["Linear"]}}, "config_groups.group_0: "),
        (with_group(weights=None), "group_0.weights: is null"),
        (with_group(weights=[]), "group_0.weights: "),
        (with_group(targets="Linear"), "group_0.targets: is no list"),
        (with_group(more=1), "group_0.more: unknown field"),
        (changed(num_bits="4"), "group_0.weights.num_bits: "),
        (changed(num_bits=None), "group_0.weights.num_bits: "),
        (changed(kind="int"), "group_0.weights.kind: unknown field"),
        (changed(group_size=None), "group_0.weights: strategy 'group' needs group_size"),
        (changed(block_structure="128xx"), "group_0.weights.block_structure: "),
        (changed(actorder=True), "group_0.weights.actorder"),
        ({"ignore": "lm_head"}, "ignore: is no list"),
        ({"kv_cache_scheme": "fp8"}, "kv_cache_scheme: "),
        ({"config_groups": {"a\nb": {**GROUP, "targets": None}}}, r"config_groups.a\nb.targets: is no list"),
    ],
)
def test_a_damaged_block_is_one_error_that_names_the_field(
    quantized: Quantized, block: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_block(quantized({"use": "int8"}, block=block))
    assert str(caught.value).startswith("config.json: quantization_config.")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_block_without_groups_is_damaged(quantized: Quantized) -> None:
    checkpoint = quantized({"use": "int8"})
    config = {**checkpoint.config, "quantization_config": {"quant_method": "compressed-tensors"}}
    with pytest.raises(CheckpointError, match="config_groups: is missing"):
        read_block(replace(checkpoint, config=config))


def test_a_block_that_is_no_object_is_damaged(quantized: Quantized) -> None:
    checkpoint = quantized({"use": "int8"})
    with pytest.raises(CheckpointError, match="is no object"):
        read_block(replace(checkpoint, config={**checkpoint.config, "quantization_config": "int4"}))


@pytest.mark.parametrize("key", ["sparsity_config", "transform_config"])
def test_what_changes_weights_otherwise_is_refused(quantized: Quantized, key: str) -> None:
    with pytest.raises(UnsupportedError, match=key):
        read_block(quantized({"use": "int8"}, block={key: {"format": "dense-ish"}}))
    assert read_block(quantized({"use": "int8"}, block={key: {}})).config_groups
