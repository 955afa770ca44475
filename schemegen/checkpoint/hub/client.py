"""All that is asked of the Hub, through its client: which commit a revision is, what it lists, the bytes of a file."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from schemegen.checkpoint.hub.listing import Listing, read_listing
from schemegen.checkpoint.hub.names import is_commit
from schemegen.checkpoint.hub.settings import endpoint

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN: Final = "main"
_CHUNK_BYTES: Final = 1 << 18
_CHUNK_SECONDS: Final = 1.0
_MAX_PAGES: Final = 1000
"""Of a listing; the Hub puts 1,000 files on each."""
_RANGE: Final = re.compile(r"bytes (\d{1,20})-\d{1,20}/(\d{1,20}|\*)")


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes of a file from `start` on; `total` are those of the whole file as the server says, if it does."""

    start: int
    total: int | None
    chunks: Iterator[bytes]

    @property
    def is_vague(self) -> bool:
        """Whether it is the file from its beginning, of no length: a login page answers so as well."""
        return self.start == 0 and self.total is None


def api() -> HfApi:
    """The client, which says who asks."""
    from huggingface_hub import HfApi

    return HfApi(library_name="schemegen", library_version=version("schemegen"))


def resolve(repo: str, revision: str) -> tuple[str, str]:
    """The repository's own name, which an old name leads to, and the commit that `revision` is now."""
    from huggingface_hub import constants

    info = api().model_info(repo, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    if not isinstance(info.sha, str) or not is_commit(info.sha):
        raise ValueError("no commit in the answer")
    return info.id if isinstance(info.id, str) else repo, info.sha


def list_files(repo: str, commit: str) -> Listing:
    """What the repository holds at this commit; ValueError for an answer that is no Hub's."""
    return read_listing(_facts(item) for page in _pages(repo, commit) for item in page if item["type"] == "file")


def _pages(repo: str, commit: str) -> Iterator[list[Any]]:
    """The listing page by page. What comes next is asked of the same address, wherever a page says that it lies."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session, hf_raise_for_status

    url = f"{endpoint()}/api/models/{repo}/tree/{quote(commit, safe='')}"
    query = [("recursive", "true"), ("expand", "false")]
    for _ in range(_MAX_PAGES):
        timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        response = get_session().get(url, params=query, headers=_headers(), timeout=timeout)
        hf_raise_for_status(response)
        page = response.json()
        if not isinstance(page, list):
            raise ValueError("a listing that is no list")
        yield page
        following = response.links.get("next", {}).get("url")
        if following is None:
            return
        before, query = query, parse_qsl(urlsplit(following).query)
        if not page or query == before:
            break
    raise ValueError("a listing without an end")


def _headers() -> dict[str, str]:
    """Who asks, and with which token."""
    from huggingface_hub.utils import build_hf_headers

    return {**build_hf_headers(library_name="schemegen", library_version=version("schemegen"))}


def _facts(item: Any) -> tuple[Any, Any, Any]:
    lfs = item.get("lfs")
    return (item["path"], item["size"], item["oid"]) if lfs is None else (item["path"], lfs["size"], lfs["oid"])


@contextmanager
def streamed(repo: str, commit: str, name: str, start: int, end: int) -> Iterator[Answer]:
    """Bytes from `start` up to `end` of a file; a server that knows no ranges sends it from the beginning."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import get_session, hf_raise_for_status

    # Not compressed: sizes and ranges are those of the file.
    headers = _headers() | {"accept-encoding": "identity", "range": f"bytes={start}-{end - 1}"}
    url = hf_hub_url(repo, name, revision=commit)
    with get_session().stream("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as response:
        hf_raise_for_status(response)
        yield _answer(response.headers, response.status_code, _chunks(response.iter_bytes()))


def _chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces as they come, put together to what is worth a write; an error comes after all that came before it."""
    held: list[bytes] = []
    size, since = 0, time.monotonic()
    try:
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= _CHUNK_BYTES or time.monotonic() - since > _CHUNK_SECONDS:
                yield b"".join(held)
                held, size, since = [], 0, time.monotonic()
    except Exception:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def _answer(headers: Any, status: int, chunks: Iterator[bytes]) -> Answer:
    if status != 206:
        length = headers.get("content-length", "")
        return Answer(0, int(length) if length.isdigit() and "content-encoding" not in headers else None, chunks)
    found = _RANGE.fullmatch(headers.get("content-range", ""))
    if found is None:
        raise ValueError("a part of a file that does not say which")
    return Answer(int(found[1]), int(found[2]) if found[2].isdigit() else None, chunks)
