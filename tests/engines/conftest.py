"""Plans of the sample under chosen layouts, policies and formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.sample import write_sample
from schemegen.checkpoint.sample_tensors import ExpertsAs
from schemegen.planner import Plan, resolve_rules
from schemegen.planner import make_plan as plan_of
from schemegen.policy import Policy
from schemegen.scheme import Scheme

MakePlan = Callable[..., Plan]
SampleOf = Callable[[ExpertsAs, ExpertsAs], Path]
TOKEN = {"strategy": "token", "dynamic": True, "observer": None}
FORMATS: Mapping[str, Any] = {
    "int4": {"num_bits": 4, "strategy": "group", "group_size": 32},
    "int4_asym": {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False},
    "int8": {"num_bits": 8, "strategy": "channel"},
    "w8a8": {"weights": {"num_bits": 8, "strategy": "channel"}, "input_activations": {"num_bits": 8, **TOKEN}},
    "int8_alone": {"weights": {"num_bits": 8, "strategy": "channel"}, "storage": "int-quantized"},
    "fp8": {
        "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
        "input_activations": {"num_bits": 8, "type": "float", **TOKEN},
    },
    "fp8_alone": {"num_bits": 8, "type": "float", "strategy": "channel"},
    "fp8_block": {
        "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
        "input_activations": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": True},
    },
    "nvfp4": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
    "mxfp4": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
    "mxfp8": {
        "weights": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
        "input_activations": {
            "num_bits": 8,
            "type": "float",
            "strategy": "group",
            "group_size": 32,
            "dynamic": True,
            "scale_dtype": "uint8",
        },
    },
    "w4afp8": {
        "weights": {"num_bits": 4, "strategy": "group", "group_size": 32},
        "input_activations": {"num_bits": 8, "type": "float", **TOKEN},
        "storage": "pack-quantized",
    },
    "int3": {"num_bits": 3, "strategy": "group", "group_size": 64},
    "exact": {"num_bits": 4, "strategy": "group", "group_size": 32, "narrow_range": True},
    "searched": {"num_bits": 4, "strategy": "group", "group_size": 32, "observer": "mse"},
    "signed": {"num_bits": 4, "strategy": "group", "group_size": 32, "observer": "signed_mse"},
}


@pytest.fixture(scope="session")
def formats() -> Mapping[str, Any]:
    """Formats by name, at least one for each storage."""
    return FORMATS


@pytest.fixture(scope="session")
def sample_of(tmp_path_factory: pytest.TempPathFactory) -> SampleOf:
    """The sample, trunk and MTP block each with its experts fused or separate, written once."""
    folders: dict[tuple[str, str], Path] = {}

    def find(experts: ExpertsAs, mtp_experts: ExpertsAs) -> Path:
        if (experts, mtp_experts) not in folders:
            folder = tmp_path_factory.mktemp("source")
            write_sample("qwen3.6-moe", folder, experts=experts, mtp_experts=mtp_experts)
            folders[experts, mtp_experts] = folder
        return folders[experts, mtp_experts]

    return find


@pytest.fixture(scope="session")
def make_plan(sample_of: SampleOf) -> MakePlan:
    """A factory: rules put in front, or names of policies, and how trunk and MTP block store experts → a plan."""

    def make(*front: str | dict[str, Any], experts: ExpertsAs = "fused", mtp_experts: ExpertsAs = "fused") -> Plan:
        policies = [item if isinstance(item, str) else _policy(item) for item in front]
        return schemegen.plan("kimi-k2-int4", sample_of(experts, mtp_experts), policies=policies)

    return make


@pytest.fixture(scope="session")
def mixed_plan(sample_of: SampleOf) -> MakePlan:
    """A factory: rules over the formats of `formats`, and how experts are stored → a plan that nobody has checked."""

    def make(*rules: dict[str, Any], experts: ExpertsAs = "fused", mtp_experts: ExpertsAs = "fused") -> Plan:
        checkpoint = open_checkpoint(str(sample_of(experts, mtp_experts)), None)
        scheme = _scheme(rules)
        return plan_of(checkpoint, QWEN3_5_MOE, scheme, resolve_rules(scheme, lambda _: pytest.fail("a name")))

    return make


def _scheme(rules: Sequence[Mapping[str, Any]]) -> Scheme:
    used = {rule["use"] for rule in rules}
    formats = {name: format for name, format in FORMATS.items() if name in used}
    return Scheme.model_validate(
        {"schema_version": 1, "name": "test", "summary": "a test's", "formats": formats, "policy": list(rules)}
    )


def _policy(rule: dict[str, Any]) -> Policy:
    return Policy.model_validate({"schema_version": 1, "name": "test", "summary": "a test's", "rules": [rule]})
