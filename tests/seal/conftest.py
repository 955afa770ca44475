"""A finished run to seal again: its shards, plan, source and digests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.identity import side_digests, source_identity
from schemegen.checkpoint.local import open_local
from schemegen.digests import digest
from schemegen.seal import Sealing

MakeSealing = Callable[..., Sealing]


@pytest.fixture
def shards(finished: Path, tmp_path: Path) -> Path:
    """A folder with nothing but the finished shards."""
    folder = tmp_path / "quirk.partial"
    folder.mkdir()
    for shard in finished.glob("*.safetensors"):
        shutil.copy(shard, folder)
    return folder


@pytest.fixture(scope="session")
def make_sealing() -> MakeSealing:
    """A factory: source folder, folder of shards, and fields to change of plan and checkpoint → what is to seal.

    `scheme` is another scheme, `options` are more words of the command, `told` more fields of what is sealed.
    """

    def make(source: Path, shards: Path, *policies: str, **changes: Any) -> Sealing:
        plan = schemegen.plan(changes.pop("scheme", "kimi-k2-int4"), source, policies=policies)
        checkpoint = open_local(source)
        options, told = changes.pop("options", ()), changes.pop("told", {})
        report = changes.pop("report", ())
        planned = {name: value for name, value in changes.items() if name in ("model_id", "revision", "notes")}
        changed = {name: value for name, value in changes.items() if name != "notes"}
        return Sealing(
            plan=replace(plan, **planned),
            checkpoint=replace(checkpoint, **changed),
            architecture=QWEN3_5_MOE,
            identity=source_identity(checkpoint),
            source_files=side_digests(checkpoint),
            digests={path.name: _digests(path) for path in shards.glob("*.safetensors")},
            **{
                "backend": "a-backend",
                "versions": {"numpy": "2.0"},
                "command": ["schemegen", "apply", "kimi-k2-int4", "qwen3.6-moe", *options],
                "report": report,
                **told,
            },
        )

    return make


def _digests(path: Path) -> list[tuple[int, int, str]]:
    """Digests of runs of a megabyte, last first."""
    raw, step = path.read_bytes(), 1 << 20
    return [(at, len(raw[at : at + step]), digest([raw[at : at + step]])) for at in range(0, len(raw), step)][::-1]
