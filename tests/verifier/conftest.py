"""Finished outputs to damage, and ways to damage them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import schemegen
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.local import open_local
from schemegen.errors import VerificationError
from schemegen.manifest import read_manifest
from schemegen.progress import Progress, Silent
from schemegen.verifier import Report, verify_folder

Verify = Callable[..., Report]
Findings = Callable[..., list[str]]


@pytest.fixture
def output(finished: Path, tmp_path: Path) -> Path:
    """An output of the test's own."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


@pytest.fixture(scope="session")
def verify() -> Verify:
    """A factory: output, source or None, jobs, progress → the report."""

    def run(output: Path, source: Path | None = None, jobs: int = 2, progress: Progress | None = None) -> Report:
        manifest = read_manifest(output)
        checkpoint = None if source is None else open_local(source)
        plan = None if source is None else schemegen.plan("kimi-k2-int4", source)
        return verify_folder(
            output, manifest, plan, checkpoint, architecture=QWEN3_5_MOE, jobs=jobs, progress=progress or Silent()
        )

    return run


@pytest.fixture(scope="session")
def findings(verify: Verify) -> Findings:
    """A factory: output and source or None → the findings."""

    def run(output: Path, source: Path | None = None, jobs: int = 2) -> list[str]:
        try:
            verify(output, source, jobs)
        except VerificationError as error:
            return list(error.findings)
        return []

    return run
