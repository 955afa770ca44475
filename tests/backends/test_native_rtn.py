"""What the native backend takes and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.backends.native_rtn import NativeRtn
from schemegen.catalog import load_catalog
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import UnsupportedError
from schemegen.formats.words import in_short
from schemegen.planner import make_plan, resolve_rules
from schemegen.scheme import Format, Scheme

TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True}


def form(**fields: Any) -> Format:
    return Format.model_validate({"num_bits": 4, "group_size": 32} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"group_size": 8},
        {"group_size": 4, "num_bits": 8},
        {"group_size": 128},
        {"num_bits": 8},
        {"strategy": "channel", "group_size": None},
        {"narrow_range": True},
        {"symmetric": False},
        {"symmetric": False, "num_bits": 8, "strategy": "channel", "group_size": None},
        {"num_bits": 8, "strategy": "channel", "group_size": None, "input_activations": TOKENS},
        {"num_bits": 6, "strategy": "tensor", "group_size": None, "storage": "int-quantized"},
        {"group_size": 128, "input_activations": TOKENS | {"type": "float"}, "storage": "pack-quantized"},
    ],
)
def test_int4_and_int8_are_taken_without_torch(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schemegen.backends.native_rtn.torch_fault", lambda: "is not there")
    assert NativeRtn().refuses(form(**fields)) is None


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        *({"num_bits": bits} for bits in (2, 3, 5, 6, 7)),
        *({"num_bits": bits, "symmetric": False} for bits in (2, 3, 5, 6, 7)),
        {"symmetric": False, "observer": "mse"},
        {"num_bits": 8, "storage": "int-quantized", "observer": "mse"},
        {"num_bits": 3, "narrow_range": True},
        {"num_bits": 3, "strategy": "channel", "group_size": None},
        {"group_size": 4},
        {"group_size": 6, "num_bits": 8},
    ],
    ids=str,
)
def test_other_widths_and_groups_are_for_torch(
    fields: dict[str, Any], installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = None if installed else "is not there"
    monkeypatch.setattr("schemegen.backends.native_rtn.torch_fault", lambda: fault)
    told = f"computes {in_short(form(**fields))} with torch, which is not there"
    assert NativeRtn().refuses(form(**fields)) == (None if installed else told)


def test_some_weights_are_for_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on the dtype is refused before anything starts."""
    write_sample("qwen3.6-moe", tmp_path / "f32", dtype="F32")
    monkeypatch.setattr("schemegen.backends.native_rtn.torch_fault", lambda: "is not there")
    with pytest.raises(UnsupportedError, match="computes F32 to INT4 g32 mse with torch, which is not there"):
        schemegen.apply("w4a16-g32-mse", tmp_path / "f32", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["f32"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"num_bits": 1}, "integers of 2 to 8 bits"),
        ({"num_bits": 9}, "integers of 2 to 8 bits"),
        ({"storage": "marlin-24"}, "marlin-24"),
        ({"strategy": "tensor", "group_size": None}, "strategies group and channel"),
        ({"observer": "imatrix"}, "observer"),
        ({"actorder": "group"}, "actorder"),
        ({"scale_dtype": "float32"}, "scale_dtype"),
        (
            {"storage": "pack-quantized", "input_activations": {"num_bits": 8, "strategy": "tensor"}},
            "static activations",
        ),
    ],
)
def test_everything_else_is_refused_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    found = NativeRtn().refuses(form(**fields))
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    ("bits", "group", "recorded"),
    [(4, 32, ("numba", "numpy")), (8, 16, ("numba", "numpy")), (3, 32, ("numpy", "torch")), (4, 4, ("numpy", "torch"))],
)
def test_what_decides_the_bits_follows_from_the_plan(
    bits: int, group: int, recorded: tuple[str, ...], sample_folder: Path
) -> None:
    catalog = load_catalog()
    checkpoint = open_checkpoint(str(sample_folder))
    head = {"schema_version": 1, "name": "of-a-test", "summary": "a scheme of a test", "policy": ["experts-only"]}
    scheme = Scheme.model_validate(head | {"formats": {"int": {"num_bits": bits, "group_size": group}}})
    rules = resolve_rules(scheme, catalog.policy)
    plan = make_plan(checkpoint, catalog.architecture_of(checkpoint.config), scheme, rules)
    assert NativeRtn().recorded(plan) == recorded
