"""vLLM's OpenAI-compatible server over a checkpoint, for as long as a test needs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.quality.generation import ENVIRONMENT
from tests_engines.running import ROOT

START_SECONDS = 240
STOP_SECONDS = 20


@contextmanager
def served(model: Path, log: Path) -> Iterator[str]:
    """The address of a running server; the server and all it started are gone when the block is left."""
    port = free_port()
    # The API server has its engine in a process of its own, whatever is said for the offline engine.
    environment = {**os.environ, **ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with log.open("w") as stream:
        process = subprocess.Popen(
            command(model, port), cwd=ROOT, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )
        # As an interrupt does, a request to end must pass through here: the server would outlive its test.
        former = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            wait_until_ready(process, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(process)
            signal.signal(signal.SIGTERM, former)


def command(model: Path, port: int) -> list[str]:
    """The server's command line, MTP drafts on."""
    drafts = json.dumps({"method": "mtp", "num_speculative_tokens": 1})
    options = ["--language-model-only", "--enforce-eager", "--max-model-len", "512", "--no-enable-prefix-caching"]
    server = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    return [*server, "--host", "127.0.0.1", "--port", str(port), *options, "--speculative-config", drafts]


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Return once the server answers; RuntimeError with the end of its log where it ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"the server did not come up:\n{log.read_text()[-6000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the server's whole group to end, and end it where it does not."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def metrics(address: str) -> dict[str, float]:
    """The server's counters by name, summed over their labels."""
    with urlopen(f"{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if line and not line.startswith("#"):
            labelled, _, value = line.rpartition(" ")
            name = labelled.partition("{")[0]
            found[name] = found.get(name, 0) + float(value)
    return found
