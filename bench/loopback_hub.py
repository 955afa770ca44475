"""A small Hub on this machine: enough of its API for the real client, and a count of every byte that leaves it."""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from bench.loopback_repo import Data, Fault, Repo, data_of
from bench.loopback_requests import Handler

__all__ = ["Data", "Fault", "LoopbackHub", "Repo"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class LoopbackHub:
    """The server: what it holds, what it has sent, how fast it sends and what it gets wrong."""

    token: Final = "hf_loopback"

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.requests: list[tuple[str, str, str]] = []
        """Method, path and range of every request."""
        self.sent: Counter[str] = Counter()
        """Bytes of each file that were sent."""
        self.authorizations: set[str | None] = set()
        """What requests said of who asks."""
        self.faults: list[Fault] = []
        self.bytes_per_second: float | None = None
        self.sending = 0
        self.lock = threading.Lock()
        hub = self

        class Bound(Handler):
            """Requests of this server."""

            owner = hub

        self._server = _Server(("127.0.0.1", 0), Bound)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, name: str, files: Mapping[str, Data] | Path, **facts: Any) -> Repo:
        """Take a repository in: a folder's files, or these."""
        held = (
            {p.relative_to(files).as_posix(): data_of(p) for p in files.rglob("*") if p.is_file()}
            if isinstance(files, Path)
            else dict(files)
        )
        commit = hashlib.sha1(f"{name}{sorted(held)}".encode(), usedforsecurity=False).hexdigest()
        self.repos[name] = repo = Repo(name, held, **{"refs": {"main": commit}, **facts})
        return repo

    def fault(self, path: str) -> Fault | None:
        """What is wrong with this request."""
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None

    def forget(self) -> None:
        """Begin to count anew, once nothing is on its way any more to a client that may be gone."""
        while self.sending:
            time.sleep(0.01)
        self.requests.clear()
        self.sent.clear()

    @contextmanager
    def running(self) -> Iterator[LoopbackHub]:
        """Serve in a thread."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
