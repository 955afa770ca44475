"""What the environment says of the Hub: read by its client, checked here, and shown without a password."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from schemegen.errors import CheckpointError

_ADDRESS: Final = re.compile(r"https?://[^\s/?#]+(/\S*)?")
_USER: Final = re.compile(r"//[^/\s]*@")
_LONGEST: Final = 300
_TIMEOUTS: Final = ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT")


def require_client() -> None:
    """Import the Hub's client; CheckpointError, naming the variable, for an environment that it cannot be read with."""
    # The client takes an address apart as it is imported, so that it must be looked at before.
    _require_address(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        from huggingface_hub import constants
    except ValueError as error:
        named = [name for name, value in os.environ.items() if name.startswith("HF_") and repr(value) in str(error)]
        raise CheckpointError(
            f"{' or '.join(named) or 'a variable HF_…'} holds what the Hub's client cannot read "
            f"({printable(error)}); correct or unset it"
        ) from error
    for name in _TIMEOUTS:
        if getattr(constants, name) <= 0:
            raise CheckpointError(f"{name} is {getattr(constants, name)}, and has to be above 0; correct or unset it")


def endpoint() -> str:
    """The Hub's address; CheckpointError for one that is none."""
    require_client()
    from huggingface_hub import constants

    found: str = constants.ENDPOINT
    _require_address(found)
    return found


def shown_endpoint() -> str:
    """The Hub's address for a message."""
    return printable(endpoint())


def cache_folder() -> Path:
    """The Hub client's cache; CheckpointError where that is set to nothing."""
    require_client()
    from huggingface_hub import constants

    if not constants.HF_HUB_CACHE:
        raise CheckpointError("HF_HUB_CACHE is empty, which is no folder; name one or unset it")
    return Path(constants.HF_HUB_CACHE).expanduser().absolute()


def printable(what: object) -> str:
    """Text that others chose, for a message: on one line, of bounded length, without a password in an address."""
    text = _USER.sub("//", str(what))[:_LONGEST]
    return text if text.isprintable() else repr(text)[1:-1]


def _require_address(address: str) -> None:
    if not _is_address(address):
        raise CheckpointError(
            f"HF_ENDPOINT is {_USER.sub('//', address)!r}, which is no address such as https://huggingface.co; "
            "correct or unset it"
        )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(_ADDRESS.fullmatch(text) and parts.hostname and parts.port != 0)
    except ValueError:
        return False


class _Quiet:
    """Who asks for silence at the moment, and what the client's logger was before."""

    lock: Final = threading.Lock()
    count = 0
    level = logging.NOTSET


@contextmanager
def quiet_client() -> Iterator[None]:
    """Keep the client's logger silent in the block: it repeats what servers say as they say it, and errors tell all."""
    require_client()
    import huggingface_hub.utils.logging  # noqa: F401 - which sets its logger's level as it is imported

    logger = logging.getLogger("huggingface_hub")
    with _Quiet.lock:
        if not _Quiet.count:
            _Quiet.level = logger.level
            logger.setLevel(logging.CRITICAL + 1)
        _Quiet.count += 1
    try:
        yield
    finally:
        with _Quiet.lock:
            _Quiet.count -= 1
            if not _Quiet.count:
                logger.setLevel(_Quiet.level)
