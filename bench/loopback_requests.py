"""How the loopback Hub answers: enough of the Hub's API for the real client."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from bench.loopback_repo import Fault, Repo, is_large

if TYPE_CHECKING:
    from bench.loopback_hub import LoopbackHub

_BLOCK: Final = 1 << 16


class Handler(BaseHTTPRequestHandler):
    """One request: the API, a redirect to a large file, or a file."""

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
            self._send(fault.status, fault.body, dict(fault.headers), sized=fault.sized)
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
        *,
        sized: bool = True,
    ) -> None:
        self.send_response(status)
        self.close_connection |= not sized
        for key, value in {**headers, **({"Content-Length": str(len(body))} if sized else {})}.items():
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
                self._write_block(block[: max(0, cut - offset)], file)
                self.close_connection = True
                return
            self._write_block(block, file)
            if self.owner.bytes_per_second:
                time.sleep(len(block) / self.owner.bytes_per_second)

    def _write_block(self, block: bytes | memoryview, file: str | None) -> None:
        self.wfile.write(block)
        if file is not None:
            with self.owner.lock:
                self.owner.sent[file] += len(block)
