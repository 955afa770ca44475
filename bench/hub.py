"""What a model on the Hub costs and survives: `python -m bench.hub`; exit 1 unless bytes fetched are bytes needed.

The real client and whole processes against a Hub on this machine: bytes of `plan` on the full-size layout and of
`plan` and `apply` on a checkpoint, a download killed at random moments, and the sentence of each failing repository.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.compare import file_differences
from bench.loopback_hub import LoopbackHub, Repo
from bench.process import ROOT, FailedError, apply, schemegen
from bench.sentences import sentences
from bench.workspace import Workspace

REPO = "Qwen/Bench"
#: What a repository may hold besides, and no run needs.
BESIDE = {"pytorch_model.bin": b"b" * 1_000_000, "model-Q4_K_M.gguf": b"g" * 1_000_000, "onnx/model.onnx": b"o" * 99}


@dataclass(frozen=True, slots=True)
class Caller:
    """Runs the command line with caches of its own."""

    hub: LoopbackHub
    home: Path

    @property
    def env(self) -> Mapping[str, str]:
        """The environment."""
        own = {"HF_HOME": str(self.home / "hf"), "SCHEMEGEN_CACHE": str(self.home / "schemegen")}
        return {**os.environ, **own, "HF_ENDPOINT": self.hub.url, "HF_HUB_DISABLE_TELEMETRY": "1"}

    def run(self, command: list[str]) -> float:
        """Run to the end; the seconds."""
        began = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FailedError(f"{' '.join(command)} gave exit code {done.returncode}:\n{done.stderr}")
        return time.perf_counter() - began

    def killed(self, command: list[str], seconds: float) -> bool:
        """Kill it after some seconds; False if it was finished before."""
        process = subprocess.Popen(
            command, cwd=ROOT, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(seconds)
            return False
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True

    def kept(self) -> int:
        """Bytes of the model that the cache has, whole files and beginnings."""
        blobs = (self.home / "hf" / "hub").glob("models--*/blobs/*")
        return sum(path.stat().st_size for path in blobs)

    def forget(self) -> None:
        """Begin without caches."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.hub.forget()


def headers_only(caller: Caller, folder: Path) -> None:
    """What `plan` fetches of a model of full size."""
    repo = caller.hub.add(REPO, folder, hashed=False)
    seconds = caller.run(schemegen("plan", "kimi-k2-int4", REPO))
    fetched, requests = sum(caller.hub.sent.values()), len(caller.hub.requests)
    whole = sum(map(len, repo.files.values()))
    shards = sum(name.endswith(".safetensors") for name in repo.files)
    print(
        f"plan, full size ({whole:,} bytes in {shards} shards): {fetched:,} bytes, {requests} requests, {seconds:.1f} s"
    )
    caller.hub.forget()
    seconds = caller.run(schemegen("plan", "kimi-k2-int4", REPO))
    print(f"  again: {sum(caller.hub.sent.values()):,} bytes, {len(caller.hub.requests)} request, {seconds:.1f} s")


def needed_only(caller: Caller, folder: Path, space: Workspace) -> Path:
    """What `plan` and `apply` fetch, against what a run needs; the output."""
    repo = _with_more(caller.hub, folder)
    needed = {name: len(data) for name, data in repo.files.items() if name not in BESIDE}
    caller.run(schemegen("plan", "kimi-k2-int4", REPO))
    planned = sum(caller.hub.sent.values())
    output = space.output("hub")
    seconds = caller.run(apply(REPO, output))
    fetched = dict(caller.hub.sent)
    print(f"plan: {planned:,} bytes; apply: {sum(fetched.values()) - planned:,} more in {seconds:.1f} s")
    print(f"  fetched {sum(fetched.values()):,} bytes of {len(fetched)} files, needed {sum(needed.values()):,}")
    print(f"  left alone {sum(map(len, BESIDE.values())):,} bytes of {len(BESIDE)} files")
    _require(fetched == needed, "bytes fetched are not bytes needed")
    caller.hub.forget()
    caller.run(apply(REPO, space.output("hub-again")))
    print(f"  again: {sum(caller.hub.sent.values()):,} bytes, {len(caller.hub.requests)} request")
    _require(not caller.hub.sent, "a whole snapshot was fetched again")
    return output


def resumed(caller: Caller, output: Path, space: Workspace, kills: int, rng: random.Random, rate: float) -> None:
    """Kill the download again and again; what is kept stays, and the end is the same."""
    again, kept, landed = space.output("hub-killed"), 0, 0
    needed = sum(len(data) for name, data in caller.hub.repos[REPO].files.items() if name not in BESIDE)
    caller.forget()
    caller.hub.bytes_per_second = rate
    while landed < kills and caller.killed(apply(REPO, again), rng.uniform(1.5, 4.0)):
        now = caller.kept()
        _require(now >= kept, "a kill lost what had been kept")
        if now > kept:
            landed, kept = landed + 1, now
            print(f"  kill {landed}: {kept:,} bytes kept")
    caller.hub.bytes_per_second = None
    caller.hub.forget()
    caller.run(apply(REPO, again))
    fetched = sum(caller.hub.sent.values())
    print(f"  then {fetched:,} bytes fetched, {needed - kept:,} were missing")
    _require(fetched == needed - kept, "a resumed download fetched what it had")
    differences = [*file_differences(output, again)]
    _require(not differences, f"the output differs: {differences[:3]}")
    print(f"{landed} kills of the download, output equal to that of an unbroken run")


def _with_more(hub: LoopbackHub, folder: Path) -> Repo:
    hub.forget()
    repo = hub.add(REPO, folder)
    repo.files.update(BESIDE)
    repo.refs["main"] = "1" * 40
    return repo


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


def main() -> None:
    """Everything, in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "schemegen-bench", metavar="DIR")
    parser.add_argument("--checkpoint", default="medium", metavar="NAME", help="which to download  [default: medium]")
    parser.add_argument("--kills", type=int, default=5, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="leave built checkpoints for the next run")
    options = parser.parse_args()
    space = Workspace(options.work)
    space.require(["sparse-full", options.checkpoint], 3.0)
    try:
        with LoopbackHub().running() as hub, tempfile.TemporaryDirectory(dir=options.work) as home:
            caller = Caller(hub, Path(home) / "home")
            headers_only(caller, space.checkpoint("sparse-full"))
            caller.forget()
            folder = space.checkpoint(options.checkpoint)
            output = needed_only(caller, folder, space)
            rate = sum(path.stat().st_size for path in folder.iterdir()) / 80
            resumed(caller, output, space, options.kills, random.Random(options.seed), rate)
        _table()
    finally:
        space.clean([*space.built] if options.keep else [])


def _table() -> None:
    print("each failing repository's sentence:")
    for what, told in sentences():
        print(f"  {what}\n    {told}")


if __name__ == "__main__":
    main()
