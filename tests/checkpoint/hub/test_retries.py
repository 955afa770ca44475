"""Questions and files are asked for again where that may help."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.hub import retries
from schemegen.checkpoint.hub.parallel import Stopped
from schemegen.checkpoint.hub.retries import answered, wait_after
from schemegen.errors import CheckpointError

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]


class Refusal(Exception):
    """What the client raises, as far as it is looked at."""

    def __init__(self, code: int, **headers: str) -> None:
        self.response = Response(code, headers)


class Response:
    """An answer that is an error."""

    def __init__(self, code: int, headers: Mapping[str, str]) -> None:
        self.status_code = code
        self.headers = headers


@pytest.mark.parametrize("status", [500, 502, 503, 429])
@pytest.mark.parametrize("path", ["/revision/", "/tree/"])
def test_a_busy_hub_is_asked_again(hub: LoopbackHub, toy_files: Files, status: int, path: str) -> None:
    hub.add(REPO, toy_files)
    hub.faults.append(Fault(path, status, times=2))
    assert open_checkpoint(REPO).model_id == REPO
    assert sum(path in asked for _, asked, _ in hub.requests) == 3


def test_a_hub_that_stays_busy_is_left_in_peace(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "WAITS", (0.01,) * 5)
    hub.add(REPO, toy_files)
    hub.faults.append(Fault("/api/", 503))
    with pytest.raises(CheckpointError, match="answers with error 503"):
        open_checkpoint(REPO)
    assert len(hub.requests) == 4


@pytest.mark.parametrize(
    "fault", [Fault("/api/", 429, {"Retry-After": "77"}), Fault("/api/", 403), Fault("/api/", 200, {}, b"<html>")]
)
def test_what_lasts_is_told_at_once(hub: LoopbackHub, toy_files: Files, fault: Fault) -> None:
    hub.add(REPO, toy_files)
    hub.faults.append(fault)
    with pytest.raises(CheckpointError):
        open_checkpoint(REPO)
    assert len(hub.requests) == 1


def test_that_nobody_is_there_is_told_at_once() -> None:
    calls = []

    class ConnectError(Exception):
        """Not a status."""

    def ask() -> None:
        calls.append(1)
        raise ConnectError

    with pytest.raises(ConnectError):
        answered(ask)
    assert calls == [1]


def test_a_wait_lasts_as_long_as_the_hub_asks() -> None:
    began = time.monotonic()
    wait_after(Refusal(429, **{"retry-after": "1"}), iter([0.01]), threading.Event())
    assert time.monotonic() - began > 0.9
    with pytest.raises(Refusal):
        wait_after(Refusal(429, **{"retry-after": "61"}), iter([0.01]), threading.Event())
    with pytest.raises(Refusal):
        wait_after(Refusal(503), iter([]), threading.Event())


def test_a_wait_ends_with_a_stop() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        wait_after(Refusal(503), iter([60.0]), stop)
