"""What config.json says of modules that are stored quantized, without a source to compare it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.model import TensorHeader
from schemegen.verifier.texts import config_faults

TEXT = "model.language_model.layers.0"
STORED = (f"{TEXT}.mlp.experts.3.up_proj.weight_packed", f"{TEXT}.mlp.experts.3.up_proj.weight_scale")
PLAIN = (f"{TEXT}.self_attn.q_proj.weight", f"{TEXT}.self_attn.q_proj.weight_scale")
BLOCK: dict[str, Any] = {
    "config_groups": {
        "group_0": {"targets": ["Linear", r"re:.*mlp\.experts(\..*)?$"]},
        "group_1": {"targets": [r"re:.*self_attn\..*"]},
    },
    "format": "pack-quantized",
    "ignore": ["re:.*lm_head$"],
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
}


@pytest.fixture
def headers() -> list[Header]:
    """A shard with an expert stored packed and an attention layer stored in a byte a weight."""
    tensors = [TensorHeader(name, "U8", (1,), "m", number, 1) for number, name in enumerate((*STORED, *PLAIN))]
    return [Header("m", 0, 0, 8, "", {}, tuple(tensors))]


def faults(headers: list[Header], change: Callable[[dict[str, Any]], None]) -> list[str]:
    import copy

    block = copy.deepcopy(BLOCK)
    change(block)
    return config_faults({"quantization_config": block}, headers)


def test_a_block_that_fits_has_no_faults(headers: list[Header]) -> None:
    assert faults(headers, lambda block: None) == []


@pytest.mark.parametrize("entry", [r"re:.*self_attn\..*", r"re:language_model\.model\..*", f"{TEXT}.self_attn.q_proj"])
def test_no_format_is_ignored_in_any_spelling(headers: list[Header], entry: str) -> None:
    found = faults(headers, lambda block: block["ignore"].append(entry))
    assert f"config.json ignores {TEXT}.self_attn.q_proj, which is stored quantized" in found


def test_without_linear_every_module_is_named_in_every_spelling(headers: list[Header]) -> None:
    def only(entry: str) -> Callable[[dict[str, Any]], None]:
        return lambda block: block["config_groups"].update(group_0={"targets": [entry]})

    assert faults(headers, only(r"re:.*experts\..*")) == []
    for entry in (r"re:model\.language_model\..*experts\..*", r"re:.*shared_experts\..*"):
        (found,) = faults(headers, only(entry))
        assert found.startswith(f"no group of config.json targets {TEXT}.mlp.experts.0.up_proj")


def test_a_pattern_that_nobody_wrote_is_not_run(headers: list[Header]) -> None:
    (found,) = faults(headers, lambda block: block["config_groups"]["group_1"]["targets"].append("re:(a*)*b"))
    assert found == "quantization_config.targets: 're:(a*)*b' is no pattern that schemegen writes"


@pytest.mark.parametrize("groups", [None, [], {"group_0": None}, {"group_0": {"targets": None}}])
def test_groups_of_another_shape_target_nothing(headers: list[Header], groups: object) -> None:
    assert len(faults(headers, lambda block: block.update(config_groups=groups))) == 2
