"""How many of the MTP block's drafts vLLM accepts, greedy; a process of its own for each checkpoint.

`python -m bench.quality.acceptance REQUEST.json` prints what was generated as one line of JSON, the last.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.process import ROOT, FailedError
from bench.quality.generation import Generated, Request, generate, load


def accepted_share(model: Path, prompts: list[list[int]], tokens: int) -> float:
    """Accepted drafts of all drafts, in percent; FailedError with the end of vLLM's log."""
    request = Request(str(model), prompts, tokens)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asdict(request), file)
        file.flush()
        command = [sys.executable, "-m", "bench.quality.acceptance", file.name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailedError(f"vLLM on {model} gave exit code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    found = Generated(**json.loads(done.stdout.splitlines()[-1]))
    return 100 * found.accepted / found.drafted


def drafts_without_experts(folder: Path) -> bool:
    """Whether all routed experts of the MTP block are zero, so that its drafts are the same however they are stored."""
    from safetensors import safe_open

    for shard in sorted(folder.glob("*.safetensors")):
        with safe_open(shard, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith("mtp.") and ".experts." in name]  # noqa: SIM118
            if any(bool(file.get_tensor(name).any()) for name in names):
                return False
    return True


def main() -> None:
    """Command line."""
    request = Request(**json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps(generate(load(request), request).to_dict()))


if __name__ == "__main__":
    main()
