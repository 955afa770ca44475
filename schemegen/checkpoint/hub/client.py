"""All that is asked of the Hub, through its client: which commit a revision is, what it lists, the bytes of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from schemegen.checkpoint.hub.listing import Listing, read_listing
from schemegen.checkpoint.hub.names import is_commit
from schemegen.errors import CheckpointError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN: Final = "main"
_CHUNK_BYTES: Final = 1 << 18
_ADDRESS: Final = re.compile(r"https?://[^\s/?#]+(/\S*)?")
_RANGE: Final = re.compile(r"bytes (\d{1,20})-\d{1,20}/(\d{1,20}|\*)")


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes of a file from `start` on; `total` are those of the whole file as the server says, if it does."""

    start: int
    total: int | None
    chunks: Iterator[bytes]


def endpoint() -> str:
    """The Hub's address; CheckpointError for one that is none."""
    from huggingface_hub import constants

    found: str = constants.ENDPOINT
    if not _ADDRESS.fullmatch(found):
        raise CheckpointError(
            f"HF_ENDPOINT is {found!r}, which is no address such as https://huggingface.co; correct or unset it"
        )
    return found


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
    """What the repository holds at this commit."""
    from huggingface_hub.hf_api import RepoFile

    tree = api().list_repo_tree(repo, recursive=True, revision=commit)
    return read_listing(_facts(item) for item in tree if isinstance(item, RepoFile))


def _facts(item: Any) -> tuple[Any, Any, Any]:
    lfs = item.lfs
    return (item.path, item.size, item.blob_id) if lfs is None else (item.path, lfs.size, lfs.sha256)


def fetch_whole(repo: str, commit: str, name: str) -> None:
    """Have the client put a file into its cache by its own means."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        hf_hub_download(repo, name, revision=commit, library_name="schemegen", library_version=version("schemegen"))
    finally:
        if shown:
            enable_progress_bars()


@contextmanager
def streamed(repo: str, commit: str, name: str, start: int, end: int) -> Iterator[Answer]:
    """Bytes from `start` up to `end` of a file; a server that knows no ranges sends it from the beginning."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    headers = build_hf_headers(library_name="schemegen", library_version=version("schemegen"))
    # Not compressed: sizes and ranges are those of the file.
    headers |= {"accept-encoding": "identity", "range": f"bytes={start}-{end - 1}"}
    url = hf_hub_url(repo, name, revision=commit)
    with get_session().stream("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as response:
        hf_raise_for_status(response)
        yield _answer(response.headers, response.status_code, _chunks(response.iter_bytes()))


def _chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces as they come, put together to what is worth a write; an error comes after all that came before it."""
    held: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= _CHUNK_BYTES:
                yield b"".join(held)
                held, size = [], 0
    except Exception:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def _answer(headers: Any, status: int, chunks: Iterator[bytes]) -> Answer:
    if status != 206:
        told = headers.get("content-length", "")
        return Answer(0, int(told) if told.isdigit() and "content-encoding" not in headers else None, chunks)
    found = _RANGE.fullmatch(headers.get("content-range", ""))
    if found is None:
        raise ValueError("a part of a file that does not say which")
    return Answer(int(found[1]), int(found[2]) if found[2].isdigit() else None, chunks)
