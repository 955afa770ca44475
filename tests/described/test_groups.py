"""Groups as formats: short, with a storage only where it is not the one that is inferred."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from schemegen.described.block import Block
from schemegen.described.groups import groups_of, pattern_fault, spoken
from schemegen.errors import CheckpointError, UnsupportedError
from schemegen.scheme import Format, Quantization

INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "observer": None}


def formats_of(on_top: str | None, *groups: Mapping[str, Any]) -> list[Format]:
    """The formats of a block with these groups."""
    listed = {f"group_{number}": {"targets": ["Linear"], **group} for number, group in enumerate(groups)}
    block = Block.model_validate({"config_groups": listed, "format": on_top})
    return [group.format for group in groups_of(block)]


@pytest.mark.parametrize(
    ("on_top", "group", "storage"),
    [
        ("pack-quantized", {"weights": INT4}, None),
        (None, {"weights": INT4, "format": "pack-quantized"}, None),
        ("mixed-precision", {"weights": INT4}, None),
        ("int-quantized", {"weights": INT4}, "int-quantized"),
        ("mixed-precision", {"weights": INT4, "format": "int-quantized"}, "int-quantized"),
        ("pack-quantized", {"weights": INT4, "input_activations": TOKEN}, "pack-quantized"),
        ("pack-quantized", {"weights": FP8, "input_activations": TOKEN}, None),
        ("float-quantized", {"weights": FP8, "input_activations": TOKEN}, None),
    ],
)
def test_a_storage_is_told_where_it_is_not_the_inferred_one(
    on_top: str | None, group: Mapping[str, Any], storage: str | None
) -> None:
    (format,) = formats_of(on_top, group)
    assert format.storage == storage


@pytest.mark.parametrize("storage", ["marlin-24", "naive-quantized", "float-quantized"])
def test_a_storage_that_no_scheme_offers_is_refused(storage: str) -> None:
    with pytest.raises(UnsupportedError, match="group_0 is stored in a way that no scheme offers"):
        formats_of(None, {"weights": INT4, "format": storage})


def test_defaults_are_left_out_as_a_person_would() -> None:
    told = Quantization.model_validate({**INT4, "observer": "minmax", "dynamic": False, "observer_kwargs": {}})
    assert spoken(told) == INT4
    searched = Quantization.model_validate({**INT4, "observer": "mse", "actorder": "static"})
    assert spoken(searched) == {**INT4, "observer": "mse", "actorder": "static"}
    block = Quantization(num_bits=8, type="float", strategy="block", block_structure=(128, 128))
    assert spoken(block)["block_structure"] == [128, 128]


def test_no_observer_is_told_of_activations_that_nobody_observes() -> None:
    (format,) = formats_of(None, {"weights": FP8, "input_activations": {**TOKEN, "observer": "minmax"}})
    assert format.input_activations is not None
    assert "observer" not in format.input_activations.model_fields_set
    (static,) = formats_of(
        None, {"weights": FP8, "input_activations": {**FP8, "strategy": "tensor", "observer": "mse"}}
    )
    assert static.input_activations is not None
    assert static.input_activations.observer == "mse"


@pytest.mark.parametrize(
    "pattern",
    [
        r".*mlp\.(gate|up|gate_up|down)_proj.*",
        r".*\.mlp\.experts\.\d+\.(gate|up|down)_proj$",
        r"model\.layers\.([3-9]|[1-5][0-9]|60)\..*",
        r"^(?!.*visual).*",
        r".*mlp.gate$",
        "lm_head",
    ],
)
def test_patterns_of_the_wild_are_taken(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*){9}x", "((a*)*)*", ".*" * 7 + "x", "a" * 3000])
def test_patterns_that_may_take_for_ever_are_refused(pattern: str) -> None:
    start = time.monotonic()
    with pytest.raises(CheckpointError, match=r"group_0's target .* may take for ever"):
        formats_of(None, {"weights": INT4, "targets": [f"re:{pattern}"]})
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("entry", "told"), [("re:(", "is no regular expression: "), ("re:(a+)+$", "may take for ever to match")]
)
def test_what_is_ignored_is_matched_by_patterns_of_the_same_kind(entry: str, told: str) -> None:
    groups = {"group_0": {"targets": ["Linear"], "weights": INT4}}
    block = Block.model_validate({"config_groups": groups, "ignore": ["lm_head", "(", entry]})
    with pytest.raises(CheckpointError, match=r"config.json: ignore's 're:\(.*; mend the config") as refused:
        groups_of(block)
    assert told in str(refused.value)


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(CheckpointError, match="is no regular expression"):
        formats_of(None, {"weights": INT4, "targets": ["re:(.*"]})
