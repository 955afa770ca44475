"""The sentence that each failing repository gets, from whole processes against a Hub on this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.loopback_hub import Data, Fault, LoopbackHub, Repo
from bench.process import ROOT, schemegen

CONFIG: Final[dict[str, Data]] = {"config.json": b'{"architectures": ["X"], "model_type": "qwen3_5_moe"}'}
SHARD: Final[dict[str, Data]] = {"model.safetensors": (2).to_bytes(8, "little") + b"{}"}
MAIN: Final = "1" * 40


@dataclass(frozen=True, slots=True)
class Case:
    """What is wrong, and how a process meets it."""

    what: str
    model: str = "org/model"
    faults: tuple[Fault, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    revision: str | None = None


REPOS: Final = (
    Repo("org/gated", {**CONFIG, **SHARD}, {"main": MAIN}, locked="GatedRepo"),
    Repo("org/private", {**CONFIG, **SHARD}, {"main": MAIN}, locked="RepoNotFound"),
    Repo("org/model", {**CONFIG, **SHARD}, {"main": MAIN, "v1": MAIN}),
    Repo("org/data", {"README.md": b""}, {"main": MAIN}, kind="datasets"),
    Repo("org/app", {"README.md": b""}, {"main": MAIN}, kind="spaces"),
    Repo("org/gguf", {**CONFIG, "model-Q4_K_M.gguf": b""}, {"main": MAIN}),
    Repo("org/pickled", {**CONFIG, "pytorch_model.bin": b""}, {"main": MAIN}),
    Repo("org/empty", {"README.md": b""}, {"main": MAIN}),
    Repo("org/bare", SHARD, {"main": MAIN}),
    Repo("org/adapter", {"adapter_config.json": b"{}", "adapter_model.safetensors": b""}, {"main": MAIN}),
    Repo("org/hostile", {**CONFIG, **SHARD, "../x": b""}, {"main": MAIN}),
    Repo("org/cut", {**CONFIG, "model.safetensors": b"\xff" * 8}, {"main": MAIN}),
    Repo("org/other", {**CONFIG, **SHARD}, {"main": MAIN}, listed={"config.json": b"x" * 53}),
)
CASES: Final = (
    Case("gated, not logged in", "org/gated"),
    Case("gated, no access yet", "org/gated", env={"HF_TOKEN": LoopbackHub.token}),
    Case("private or missing", "org/private"),
    Case("misspelt", "org/modle"),
    Case("wrong characters", "org/my model"),
    Case("a dataset", "org/data"),
    Case("a dataset's address", "https://huggingface.co/datasets/org/data"),
    Case("a space", "org/app"),
    Case("no such revision", revision="v2"),
    Case("GGUF only", "org/gguf"),
    Case("no safetensors", "org/pickled"),
    Case("no weights", "org/empty"),
    Case("no config.json", "org/bare"),
    Case("an adapter", "org/adapter"),
    Case("a hostile listing", "org/hostile"),
    Case("a hostile header", "org/cut"),
    Case("other bytes than listed", "org/other"),
    Case("a token that is not accepted", env={"HF_TOKEN": "hf_wrong"}),
    Case("a token that is none", env={"HF_TOKEN": "hf_\x01"}),
    Case("a token without the right", faults=(Fault("/api/", 403),)),
    Case("rate limit", faults=(Fault("/api/", 429, {"Retry-After": "77"}),)),
    Case("server error", faults=(Fault("/api/", 503),)),
    Case("no answer in time", faults=(Fault("/api/", silent=3.0),), env={"HF_HUB_ETAG_TIMEOUT": "1"}),
    Case("a login page", faults=(Fault("/api/", 200, {}, b"<html>"),)),
    Case("a file that is gone", faults=(Fault("/resolve/", 404, {"X-Error-Code": "EntryNotFound"}),)),
    Case("disabled", faults=(Fault("/api/", 403, {"X-Error-Message": "Access to this resource is disabled."}),)),
    Case("no network", env={"HF_ENDPOINT": "http://127.0.0.1:9"}),
    Case("no such host", env={"HF_ENDPOINT": "http://no-such-host.invalid"}),
    Case("a proxy that is not there", env={"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "", "no_proxy": ""}),
    Case("an endpoint that is no address", env={"HF_ENDPOINT": "huggingface.co"}),
    Case("offline, nothing cached", env={"HF_HUB_OFFLINE": "1"}),
    Case("a cache that cannot be written", env={"HF_HUB_CACHE": os.devnull}),
)


def sentences() -> Iterator[tuple[str, str]]:
    """What is wrong, and what `plan` says."""
    with LoopbackHub().running() as hub, tempfile.TemporaryDirectory() as home:
        hub.repos.update({repo.name: repo for repo in REPOS})
        for number, case in enumerate(CASES):
            yield case.what, _told(hub, case, Path(home) / str(number)).replace(hub.url, "https://huggingface.co")


def _told(hub: LoopbackHub, case: Case, home: Path) -> str:
    hub.faults[:] = case.faults
    own = {"HF_HOME": str(home / "hf"), "SCHEMEGEN_CACHE": str(home / "schemegen"), "HF_ENDPOINT": hub.url}
    revision = ["--revision", case.revision] if case.revision else []
    done = subprocess.run(
        schemegen("plan", "kimi-k2-int4", case.model, *revision),
        cwd=ROOT,
        env={**os.environ, **own, **case.env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip()
