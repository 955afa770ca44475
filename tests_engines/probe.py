"""Loads one checkpoint with vLLM in a process of its own and writes down all that the tests ask about.

`python -m tests_engines.probe REQUEST.json FOLDER` writes FOLDER/run.json and FOLDER/experts.npz.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.quality.generation import ENVIRONMENT, Request, generate, load


def main() -> None:
    """Command line."""
    request = Request(**json.loads(Path(sys.argv[1]).read_text()))
    folder = Path(sys.argv[2])
    # Before the first import of anything of vLLM.
    os.environ.update(ENVIRONMENT)
    from tests_engines.recording import Recording

    recording = Recording()
    recording.install()
    llm = load(request)
    generated = generate(llm, request)
    found = {
        "lookups": recording.lookups,
        "missing": recording.missing,
        "fused": recording.fused,
        "kernels": recording.kernels,
        "drafts": recording.drafts,
        "renamed": renamed(llm, Path(request.model)),
        **generated.to_dict(),
    }
    (folder / "run.json").write_text(json.dumps(found))
    stacks: dict[str, Any] = {}
    for name, (gate_up, down) in recording.experts.items():
        stacks |= {f"{name}.w13": gate_up, f"{name}.w2": down}
    np.savez(folder / "experts.npz", **stacks)


def renamed(llm: Any, folder: Path) -> dict[str, str]:
    """The checkpoint's tensor names as vLLM spells them, by the model's own mapper; the drafter keeps its own."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    mapper = llm.apply_model(lambda model: model.hf_to_vllm_mapper)[0]
    names = index["weight_map"]
    return {name: name if name.startswith("mtp.") else mapper._map_name(name) for name in names}


if __name__ == "__main__":
    main()
