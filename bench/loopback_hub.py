"""A small Hub on this machine: enough of its API for the real client, and a count of every byte that leaves it."""

from __future__ import annotations

import hashlib
import json
import mmap
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

LARGE_BYTES: Final = 100_000
_BLOCK: Final = 1 << 16
Data = bytes | mmap.mmap


@dataclass
class Repo:
    """A model: commits by revision, and the files, which are the same at every commit."""

    name: str
    files: dict[str, Data]
    refs: dict[str, str] = field(default_factory=dict)
    kind: str = "models"
    locked: str = ""
    """The error code of whoever comes without the token: RepoNotFound for a private one, GatedRepo for a gated one."""
    listed: dict[str, bytes] = field(default_factory=dict)
    """Files that the listing describes otherwise than they are."""
    hashed: bool = True
    """Whether large files are listed with their digests; one who reads headers only does not miss those."""
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """What main is."""
        return self.refs["main"]

    def tree(self) -> list[dict[str, Any]]:
        """The listing, as the Hub gives it."""
        return [self._described(name, self.listed.get(name, data)) for name, data in sorted(self.files.items())]

    def digest(self, name: str) -> str:
        """The SHA-256 of a file, computed once."""
        if name not in self.digests:
            data = self.files[name] if self.hashed else name.encode()
            self.digests[name] = hashlib.sha256(data).hexdigest()
        return self.digests[name]

    def _described(self, name: str, data: Data) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "file", "path": name, "size": len(data)}
        if is_large(name, data):
            digest = hashlib.sha256(data).hexdigest() if name in self.listed else self.digest(name)
            return {**found, "oid": "0" * 40, "lfs": {"oid": digest, "size": len(data), "pointerSize": 135}}
        blob = hashlib.sha1(b"blob %d\0" % len(data) + bytes(data), usedforsecurity=False)
        return {**found, "oid": blob.hexdigest()}


def is_large(name: str, data: Data) -> bool:
    """Whether the Hub keeps a file apart from git."""
    return name.endswith((".safetensors", ".bin", ".gguf")) or len(data) > LARGE_BYTES


@dataclass
class Fault:
    """How requests whose path matches are answered instead, `times` times; `cut` is where the body ends."""

    path: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    times: int = 1_000_000
    cut: int | None = None
    silent: float = 0.0
    ignore_range: bool = False


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

        class Handler(_Handler):
            """Requests of this server."""

            owner = hub

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, name: str, files: Mapping[str, Data] | Path, **facts: Any) -> Repo:
        """Take a repository in: a folder's files, or these."""
        held = (
            {p.relative_to(files).as_posix(): _data(p) for p in files.rglob("*") if p.is_file()}
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


def _data(path: Path) -> Data:
    """A file's bytes; those of a large one stay on disk."""
    if path.stat().st_size <= LARGE_BYTES:
        return path.read_bytes()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class _Handler(BaseHTTPRequestHandler):
    owner: LoopbackHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        """As GET, without the body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer one request."""
        path = urlsplit(self.path).path
        with self.owner.lock:
            self.owner.requests.append((self.command, path, self.headers.get("range", "")))
            self.owner.authorizations.add(self.headers.get("authorization"))
        fault = self.owner.fault(path)
        time.sleep(fault.silent if fault else 0)
        if fault and fault.status:
            self._send(fault.status, fault.body, dict(fault.headers))
            return
        parts = path.strip("/").split("/")
        try:
            if parts[0] == "api":
                self._api(parts[1], parts[2:])
            elif parts[0] == "cdn":
                self._file("/".join(parts[1:3]), unquote("/".join(parts[3:])), fault)
            else:
                self._resolve("/".join(parts[:2]), parts[3], unquote("/".join(parts[4:])), fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _api(self, kind: str, parts: list[str]) -> None:
        if kind not in ("models", "datasets", "spaces"):
            self._send(404, b"", {})
            return
        if not parts:
            self._search(kind)
            return
        repo = self._allowed("/".join(parts[:2]), kind)
        if repo is None:
            return
        what = parts[2] if len(parts) > 2 else "revision"
        commit = self._commit(repo, unquote(parts[3]) if len(parts) > 3 else "main")
        if what == "refs":
            branches = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": c} for name, c in repo.refs.items()]
            self._json({"branches": branches, "tags": [], "converts": []})
        elif commit is None:
            self._error(404, "RevisionNotFound")
        elif what == "tree":
            self._json(repo.tree())
        else:
            self._json({"id": repo.name, "modelId": repo.name, "sha": commit, "siblings": [], "tags": []})

    def _search(self, kind: str) -> None:
        query = parse_qs(urlsplit(self.path).query)
        author, text = query.get("author", [""])[0].lower(), query.get("search", [""])[0].lower()
        names = [
            repo.name
            for repo in self.owner.repos.values()
            if repo.kind == kind
            and repo.name.lower().startswith(f"{author}/" if author else "")
            and text in repo.name.lower()
        ]
        self._json([{"id": name, "modelId": name} for name in names])

    def _resolve(self, name: str, revision: str, file: str, fault: Fault | None) -> None:
        repo = self._allowed(name, "models")
        if repo is None:
            return
        if self._commit(repo, unquote(revision)) is None:
            self._error(404, "RevisionNotFound")
        elif file not in repo.files:
            self._error(404, "EntryNotFound")
        elif is_large(file, repo.files[file]):
            linked = {"X-Linked-Size": str(len(repo.files[file])), "X-Linked-Etag": f'"{repo.digest(file)}"'}
            place = {"Location": f"{self.owner.url}/cdn/{name}/{file}", "X-Repo-Commit": repo.commit}
            self._send(302, b"", place | linked)
        else:
            self._file(name, file, fault)

    def _allowed(self, name: str, kind: str) -> Repo | None:
        """The repository, unless it is missing, or locked to whoever asks; both are answered here."""
        repo = self.owner.repos.get(name)
        given = self.headers.get("authorization")
        if given and given != f"Bearer {self.owner.token}":
            self._error(401, "", "Invalid credentials in Authorization header")
        elif repo is None or repo.kind != kind:
            self._error(404 if given else 401, "RepoNotFound", "Repository not found")
        elif repo.locked and not given:
            self._error(401, repo.locked)
        elif repo.locked == "GatedRepo" and "accepted" not in repo.refs:
            self._error(403, repo.locked)
        else:
            return repo
        return None

    def _commit(self, repo: Repo, revision: str) -> str | None:
        return repo.refs.get(revision, revision if revision in repo.refs.values() else None)

    def _file(self, name: str, file: str, fault: Fault | None) -> None:
        repo = self.owner.repos[name]
        data = repo.files[file]
        headers = {
            "ETag": f'"{repo.digest(file)}"',
            "X-Repo-Commit": repo.commit,
            "Accept-Ranges": "bytes",
        }
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        status, start, end = 200, 0, len(data)
        if asked and not (fault and fault.ignore_range):
            start, end = int(asked[1]), min(int(asked[2] or len(data) - 1) + 1, len(data))
            status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{len(data)}"
            if start >= len(data):
                self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
        self._send(status, memoryview(data)[start:end], headers, file, fault.cut if fault else None)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, text: str = "") -> None:
        named = {"X-Error-Code": code, "X-Error-Message": text}
        self._send(status, b"{}", {key: value for key, value in named.items() if value})

    def _send(
        self,
        status: int,
        body: bytes | memoryview,
        headers: Mapping[str, str],
        file: str | None = None,
        cut: int | None = None,
    ) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        with self._counted():
            self._write(body, file, cut)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self.owner.lock:
            self.owner.sending += 1
        try:
            yield
        finally:
            with self.owner.lock:
                self.owner.sending -= 1

    def _write(self, body: bytes | memoryview, file: str | None, cut: int | None) -> None:
        for offset in range(0, len(body), _BLOCK):
            block = body[offset : offset + _BLOCK]
            if cut is not None and offset + len(block) > cut:
                self.wfile.write(block[: max(0, cut - offset)])
                self.close_connection = True
                return
            self.wfile.write(block)
            if file is not None:
                with self.owner.lock:
                    self.owner.sent[file] += len(block)
            if self.owner.bytes_per_second:
                time.sleep(len(block) / self.owner.bytes_per_second)
