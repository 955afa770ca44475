"""What a config does not tell is said, and nothing that is not so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from schemegen.checkpoint.model import SideFile

if TYPE_CHECKING:
    from tests.described.conftest import Describe, Quantized

EXPERTS: dict[str, Any] = {"role": "routed_expert", "use": "int4"}
WEIGHTS: dict[str, Any] = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
CACHE: Mapping[str, Any] = {
    "num_bits": 8,
    "type": "float",
    "strategy": "tensor",
    "symmetric": True,
    "observer": "minmax",
}


def groups(**fields: Any) -> dict[str, Any]:
    """A block whose experts' weights have other arguments."""
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": {**WEIGHTS, **fields}}}}


def test_a_plain_one_says_what_leaves_no_trace(quantized: Quantized, describe: Describe) -> None:
    observers, narrow = describe(quantized(EXPERTS)).remarks
    assert observers.startswith("observers by the config: int4 minmax;")
    assert narrow.startswith("narrow_range: true, ")


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (groups(observer="memoryless_mse"), "observer mse stands for signed_mse too"),
        (groups(observer="imatrix_mse"), "format int4: rounding without data does not offer the observer imatrix_mse"),
        (groups(actorder="static"), "format int4: rounding without data does not offer actorder"),
        ({"kv_cache_scheme": CACHE}, "kv_cache: its scales need calibration"),
        ({"ignore": ["re:.*experts.*"]}, "layers.0.mlp.experts.0.gate_proj and 14 more: stored quantized although"),
        ({"ignore": ["re:(a+)+$", "Conv2d"]}, "observers"),
    ],
)
def test_what_is_out_of_the_ordinary_is_said(
    quantized: Quantized, describe: Describe, block: Mapping[str, Any], told: str
) -> None:
    assert any(told in line for line in describe(quantized(EXPERTS, block=block)).remarks)


def test_searched_scales_have_no_narrow_range(quantized: Quantized, describe: Describe) -> None:
    found = describe(quantized(EXPERTS, block=groups(observer="memoryless_mse")))
    assert found.scheme.formats["int4"].weights.observer == "mse"
    assert not any("narrow_range" in line for line in found.remarks)


def test_a_cache_is_part_of_the_scheme(quantized: Quantized, describe: Describe) -> None:
    cache = describe(quantized(EXPERTS, block={"kv_cache_scheme": CACHE})).scheme.kv_cache
    assert cache is not None
    assert (cache.num_bits, cache.type, cache.strategy) == (8, "float", "tensor")


def test_a_group_that_nobody_uses_is_left_out(quantized: Quantized, describe: Describe) -> None:
    block = groups()
    block["config_groups"]["odd\none"] = {"targets": ["Conv2d"], "weights": {**WEIGHTS, "num_bits": 8}}
    found = describe(quantized(EXPERTS, block=block))
    assert list(found.scheme.formats) == ["int4"]
    assert any(line.startswith(r"odd\none of the config is left out") for line in found.remarks)


def test_names_of_formats_are_not_taken_by_groups_that_nobody_uses(quantized: Quantized, describe: Describe) -> None:
    unused = {"targets": ["Linear"], "weights": {**WEIGHTS, "group_size": 64}}
    block = {"config_groups": {"first": unused, **groups()["config_groups"]}}
    assert list(describe(quantized(EXPERTS, block=block)).scheme.formats) == ["int4"]


def test_a_lost_mtp_block_is_said(quantized: Quantized, describe: Describe) -> None:
    checkpoint = quantized(EXPERTS)
    kept = tuple(tensor for tensor in checkpoint.tensors if not tensor.name.startswith("mtp."))
    found = describe(replace(checkpoint, tensors=kept))
    assert found.scheme.policy == ("experts-only",)
    assert found.remarks[-1].startswith("config.json promises an MTP block that is not stored here")


def test_equal_groups_are_one_format(quantized: Quantized, describe: Describe) -> None:
    block = {
        "config_groups": {
            "attention": {"targets": ["re:.*attn.*"], "weights": WEIGHTS},
            "experts": {"targets": ["re:.*experts.*"], "weights": WEIGHTS},
        }
    }
    found = describe(quantized(EXPERTS, block=block))
    assert (found.scheme.policy, list(found.scheme.formats)) == (("experts-only",), ["int4"])
    assert not any("left out" in line for line in found.remarks)


def test_the_manifest_is_pointed_at(quantized: Quantized, describe: Describe) -> None:
    checkpoint = replace(quantized(EXPERTS), side_files=(SideFile("schemegen.json", 100),))
    assert describe(checkpoint).remarks[0].startswith("schemegen.json beside this config holds the scheme itself")


def test_projections_of_experts_need_experts_one_by_one(quantized: Quantized, describe: Describe) -> None:
    found = describe(quantized({**EXPERTS, "projection": "down"}))
    assert any("stored one by one" in line for line in found.remarks)
