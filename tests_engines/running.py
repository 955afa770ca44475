"""What one run of vLLM over one checkpoint gave, made in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.quality.generation import Request
from tests_engines.cases import Bits

ROOT = Path(__file__).resolve().parent.parent
PROMPTS = [list(range(start, start + length)) for start, length in ((1, 9), (40, 33), (100, 64), (7, 100))]
TOKENS = 16


@dataclass(frozen=True, slots=True)
class Lookup:
    """What vLLM's matcher answered for one module: its class, and its format, None where it stays as it is."""

    module: str
    kind: str
    method: str | None
    format: str | None


@dataclass(frozen=True, slots=True)
class VllmRun:
    """See `recording.Recording` and `bench.quality.generation.Generated`; `renamed`: tensor names as vLLM has them."""

    lookups: tuple[Lookup, ...]
    experts: dict[str, Bits]
    missing: list[str]
    fused: dict[str, list[str]]
    renamed: dict[str, str]
    kernels: list[str]
    drafts: list[list[tuple[int, float]]]
    tokens: list[list[int]]
    logprobs: list[list[list[tuple[int, float]]]]
    drafted: int
    accepted: int

    @property
    def emulated(self) -> bool:
        """Whether INT4 experts were decoded to BF16 after loading, for want of a kernel."""
        return any("Emulation" in kernel for kernel in self.kernels)


def run_vllm(model: Path, folder: Path) -> VllmRun:
    """Load a checkpoint with its vision tower and its drafter, and generate."""
    folder.mkdir()
    request = Request(str(model), PROMPTS, TOKENS, text_only=False)
    (folder / "request.json").write_text(json.dumps(asdict(request)))
    command = [sys.executable, "-m", "tests_engines.probe", str(folder / "request.json"), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"vLLM on {model} gave exit code {done.returncode}:\n{(done.stdout + done.stderr)[-6000:]}")
    found = json.loads((folder / "run.json").read_text())
    experts = dict(np.load(folder / "experts.npz"))
    lookups = tuple(Lookup(*row) for row in found.pop("lookups"))
    return VllmRun(lookups=lookups, experts=experts, **found)
