"""What a config does not tell is said, and nothing that is not so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from schemegen.catalog import load_catalog
from schemegen.checkpoint.model import Checkpoint, SideFile
from schemegen.described.naming import shown

if TYPE_CHECKING:
    from tests.described.conftest import Describe, PlanOf, Quantized

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
        ({"ignore": ["Conv2d", "Linear"]}, "observers"),
    ],
)
def test_what_is_out_of_the_ordinary_is_said(
    quantized: Quantized, describe: Describe, block: Mapping[str, Any], told: str
) -> None:
    assert any(told in line for line in describe(quantized(EXPERTS, block=block)).remarks)


KEPT = [r"re:.*(linear_attn|shared_expert|visual|lm_head|mtp\.fc).*", r"re:.*\.(q|k|v)_proj$"]
LEFT = "stored unquantized although the config's"


def test_what_the_config_takes_and_is_stored_as_it_was_is_said(quantized: Quantized, describe: Describe) -> None:
    (line,) = [line for line in describe(quantized(EXPERTS, block={"ignore": KEPT})).remarks if line.startswith(LEFT)]
    assert line.startswith(f"{LEFT} int4 takes it (7 modules, such as ")
    assert "layers.0.mlp.gate, " in line
    assert "self_attn.o_proj)" in line
    assert "; engines would look for quantized weights" in line


def test_each_group_is_told_what_it_takes(quantized: Quantized, describe: Describe) -> None:
    targets = {"int4": [r"re:.*\.experts\..*"], "int8": ["re:.*self_attn.*"]}
    rules = [{**EXPERTS, "projection": "down"}, {"role": "attention", "part": "text", "use": "int8"}]
    found = describe(quantized(*rules, targets=targets, block={"ignore": []})).remarks
    told = [line for line in found if line.startswith(LEFT)]
    assert [line.split()[5] for line in told] == ["int4", "int8"]
    assert "experts.0.gate_proj)" in told[0]
    assert "mtp.layers.0.self_attn.q_proj)" in told[1]


@pytest.mark.parametrize("scheme", ["kimi-k2-int4", "int4-int8-mix", "fp8-dynamic"])
@pytest.mark.parametrize("experts", ["fused", "alone"])
def test_what_is_written_here_leaves_nothing_out(
    plan: PlanOf, sources: Mapping[str, Checkpoint], written: Any, describe: Describe, scheme: str, experts: str
) -> None:
    source = sources[experts]
    made = plan(load_catalog().schemes.get(scheme), source)
    assert not any(line.startswith("stored") for line in describe(written(made, source)).remarks)


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


@pytest.mark.parametrize("name", ["", "keep", "default", "*", "a\nb"])
def test_a_group_may_be_called_anything(quantized: Quantized, describe: Describe, name: str) -> None:
    unused = {"targets": ["Conv2d"], "weights": {**WEIGHTS, "num_bits": 8}}
    told = groups()["config_groups"]["group_0"]
    found = describe(quantized(EXPERTS, block={"config_groups": {name: told, "other": unused}}))
    assert (found.scheme.policy, list(found.scheme.formats)) == (("experts-only",), ["int4"])
    mixed = quantized({**EXPERTS, "layers": "0-1"}, block={"config_groups": {name: told}, "ignore": []})
    assert any(f"config's {shown(name)} takes it" in line for line in describe(mixed).remarks)


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
