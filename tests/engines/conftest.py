"""Plans of the sample under chosen layouts and policies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.checkpoint.sample import write_sample
from schemegen.checkpoint.sample_tensors import ExpertsAs
from schemegen.planner import Plan
from schemegen.policy import Policy

MakePlan = Callable[..., Plan]


@pytest.fixture(scope="session")
def make_plan(tmp_path_factory: pytest.TempPathFactory) -> MakePlan:
    """A factory: rules put in front, or names of policies, and how trunk and MTP block store experts → a plan."""
    folders: dict[tuple[str, str], Path] = {}

    def make(*front: str | dict[str, Any], experts: ExpertsAs = "fused", mtp_experts: ExpertsAs = "fused") -> Plan:
        if (experts, mtp_experts) not in folders:
            folder = tmp_path_factory.mktemp("source")
            write_sample("qwen3.6-moe", folder, experts=experts, mtp_experts=mtp_experts)
            folders[experts, mtp_experts] = folder
        policies = [item if isinstance(item, str) else _policy(item) for item in front]
        return schemegen.plan("kimi-k2-int4", folders[experts, mtp_experts], policies=policies)

    return make


def _policy(rule: dict[str, Any]) -> Policy:
    return Policy.model_validate({"schema_version": 1, "name": "test", "summary": "a test's", "rules": [rule]})
