"""Where llm-compressor's bits are others: its grids, what it cannot save, and the layers that it does not fuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import schemegen
from schemegen import Format, Scheme
from schemegen.formats import storage_of
from schemegen.peer import fusion_difference, peer_difference, scheme_words
from schemegen.planner import Plan

NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
BLOCK = {"num_bits": 8, "type": "float", "block_structure": [128, 128]}
MakePlan = Callable[..., Plan]


@pytest.fixture
def plan_of(sample_folder: Path) -> MakePlan:
    """A factory: the fields of a format, roles → a plan of the sample."""

    def make(fields: dict[str, Any], *roles: str) -> Plan:
        head = {"schema_version": 1, "name": "of-a-test", "summary": "a scheme of a test", "formats": {"f": fields}}
        scheme = Scheme.model_validate({**head, "policy": [{"role": list(roles), "use": "f"}]})
        return schemegen.plan(scheme, sample_folder)

    return make


@pytest.mark.parametrize(
    ("fields", "roles", "told"),
    [
        ({"num_bits": 4, "group_size": 32}, ["routed_expert"], None),
        ({"num_bits": 4, "group_size": 32, "narrow_range": True}, ["routed_expert"], "has no narrow_range"),
        ({"num_bits": 4, "group_size": 32, "observer": "signed_mse"}, ["routed_expert"], "has no observer signed_mse"),
        (BLOCK, ["attention"], "cannot save the strategy block"),
        (NVFP4, ["attention"], None),
        (NVFP4, ["attention", "shared_expert"], "layers.0.mlp.shared_expert.gate_proj over other matrices"),
        (NVFP4, ["linear_attention"], "linear_attn.in_proj_qkv over other matrices"),
        (NVFP4, ["routed_expert"], "experts.0.gate_proj over other matrices"),
    ],
    ids=str,
)
def test_differences_of_a_plan(plan_of: MakePlan, fields: dict[str, Any], roles: list[str], told: str | None) -> None:
    found = peer_difference(plan_of(fields, *roles))
    assert found is None if told is None else told in (found or "")


def named(modules: Iterable[str], fusions: dict[str, tuple[str, ...]]) -> Any:
    """As much of a plan as layers need: modules of NVFP4, and what engines fuse."""
    tensors = [SimpleNamespace(format="f", modules=(module,)) for module in modules]
    format_of = lambda _: Format.model_validate(NVFP4)  # noqa: E731
    fused = {member: name for name, members in fusions.items() for member in members}

    def layer_of(module: str) -> str:
        parent, _, last = module.rpartition(".")
        return f"{parent}.{fused[last]}" if last in fused else module

    return SimpleNamespace(tensors=tensors, format_of=format_of, layer_of=layer_of)


QKV = {"qkv_proj": ("q_proj", "k_proj", "v_proj")}
GATE_UP = {"gate_up_proj": ("gate_proj", "up_proj")}
W = {"w13": ("w1", "w3")}


@pytest.mark.parametrize(
    ("modules", "fusions", "is_same"),
    [
        (["a.0.self_attn.q_proj", "a.0.self_attn.k_proj", "a.0.self_attn.v_proj", "a.0.self_attn.o_proj"], QKV, True),
        # It waits for v_proj.
        (["a.0.self_attn.q_proj", "a.0.self_attn.k_proj"], QKV, False),
        # It would fuse them.
        (["a.0.self_attn.q_proj", "a.0.self_attn.k_proj", "a.0.self_attn.v_proj"], {}, False),
        # It fuses these in one file alone.
        (["a.cross_attn.q_proj", "a.cross_attn.k_proj", "a.cross_attn.v_proj"], QKV, False),
        (["a.mixer.q_proj", "a.mixer.k_proj", "a.mixer.v_proj"], {}, True),
        (["a.0.mlp.gate_proj", "a.0.mlp.up_proj", "a.1.mlp.gate_proj", "a.1.mlp.up_proj"], GATE_UP, True),
        (["a.0.mlp.experts.0.gate_proj", "a.0.mlp.experts.0.up_proj"], GATE_UP, False),
        (["a.0.mlp.experts.0.gate_proj", "a.0.mlp.experts.0.up_proj"], {}, True),
        (["a.experts.0.w1", "a.experts.0.w3", "a.experts.0.w2"], W, True),
        (["a.experts.0.w1", "a.experts.0.w3"], {}, False),
        (["lm_head"], QKV, True),
    ],
    ids=str,
)
def test_layers_that_both_fuse_alike(modules: list[str], fusions: dict[str, tuple[str, ...]], is_same: bool) -> None:
    assert (fusion_difference(named(modules, fusions)) is None) == is_same


def test_its_own_sets_are_the_ones_known_here() -> None:
    """The table is copied: another release may fuse other layers."""
    microscale = pytest.importorskip("llmcompressor.entrypoints.model_free.microscale")
    pairs = [("self_attn", ["q_proj", "k_proj", "v_proj"]), ("attn", ["wq_a", "wkv_a_with_mqa"])]
    pairs += [("mlp", ["gate_proj", "up_proj"]), ("experts.0", ["w1", "w3"])]
    assert len(microscale.DEFAULT_FUSED_MAPPINGS) == len(pairs)
    for parent, words in pairs:
        names = [f"a.0.{parent}.{word}.weight" for word in words]
        (found,), unmatched = microscale.get_fused_names(names)
        assert (sorted(found.values()), unmatched) == (sorted(names), [])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_bits": 4, "group_size": 32}, {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}),
        ({"num_bits": 8, "strategy": "channel", "observer": "mse"}, {"observer": "memoryless_mse"}),
        (NVFP4, {"scale_dtype": "float8_e4m3fn"}),
        ({**NVFP4, "strategy": "group", "group_size": 32}, {"scale_dtype": "uint8"}),
        (BLOCK, {"block_structure": (128, 128)}),
    ],
    ids=str,
)
def test_it_is_told_what_decides_the_bits(fields: dict[str, Any], words: dict[str, Any]) -> None:
    format = Format.model_validate(fields)
    told = scheme_words(format)
    assert told["weights"].items() >= {**words, "symmetric": True}.items()
    assert told["format"] == storage_of(format)
    assert "input_activations" not in told
