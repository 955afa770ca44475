"""What went wrong with the Hub, each in one sentence that names the repository and the way out; never a token."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from schemegen.checkpoint.hub import nearby
from schemegen.checkpoint.hub.parallel import Stopped
from schemegen.checkpoint.hub.settings import cache_folder, printable, shown_endpoint
from schemegen.errors import CheckpointError, shortened

_LOG_IN: Final = "log in with 'hf auth login' (or set HF_TOKEN)"
_AGAIN: Final = "run the same command again"
_SERVER_FAULT: Final = 500
_TELLTALE: Final = frozenset({"LocalProtocolError", "UnicodeEncodeError"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: the model, its revision and, once it came to that, the file."""

    repo: str
    revision: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Unreached:
    """Why the Hub could not be asked, in a few words, and what a person may do about it."""

    why: str
    way_out: str


OFFLINE: Final = Unreached("HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE and run again")


@contextmanager
def in_one_sentence(asked: Asked) -> Iterator[None]:
    """Turn whatever the client raises in the block into one CheckpointError."""
    try:
        yield
    except (CheckpointError, Stopped, ImportError, MemoryError):
        raise
    except Exception as error:
        # What quotes a header may quote the token: it stays out of every traceback.
        raise CheckpointError(sentence(error, asked)) from (None if _kinds(error) & _TELLTALE else error)


def is_unreachable(error: Exception) -> bool:
    """Whether nobody answered, or a server that is broken: the cache is the better source then."""
    kinds = _kinds(error)
    if kinds & {"UnsupportedProtocol", "LocalProtocolError"}:  # a mistake on this side
        return False
    return bool(kinds & {"OfflineModeIsEnabled", "TransportError"}) or (status(error) or 0) >= _SERVER_FAULT


def is_passing(error: Exception) -> bool:
    """Whether the same request may well succeed in a moment."""
    lasting = _kinds(error) & {"OfflineModeIsEnabled", "ProxyError"}
    return (is_unreachable(error) and not lasting) or is_busy(error)


def is_busy(error: Exception) -> bool:
    """Whether somebody answered, and only has no time for it, or is broken."""
    code = status(error) or 0
    return code >= _SERVER_FAULT or code in (408, 429)


def status(error: Exception) -> int | None:
    """The HTTP status of an answer that was an error."""
    code = getattr(getattr(error, "response", None), "status_code", None)
    return code if isinstance(code, int) else None


def waiting_seconds(error: Exception) -> int | None:
    """How long the server asks to wait."""
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    seconds = headers.get("retry-after", "") or headers.get("ratelimit", "").rpartition("t=")[2]
    return int(seconds) if seconds.isdigit() else None


def unreached(error: Exception) -> Unreached:
    """Why the Hub could not be asked."""
    return OFFLINE if "OfflineModeIsEnabled" in _kinds(error) else Unreached(_reason(error), "run again with a network")


def _reason(error: Exception) -> str:
    kinds = _kinds(error)
    if (code := status(error)) is not None:
        return f"{shown_endpoint()} answers with error {code}"
    if "TimeoutException" in kinds:
        return f"{shown_endpoint()} does not answer in time"
    if "ProxyError" in kinds:
        return f"the proxy does not let through to {shown_endpoint()}: {printable(error)}"
    hub = shown_endpoint()
    what = f"{hub} cannot be reached" if "ConnectError" in kinds else f"the connection to {hub} broke off"
    return f"{what}: {printable(error)}" if str(error) else what


def sentence(error: Exception, asked: Asked) -> str:
    """The one sentence for an error of the client or of the disk below the cache."""
    kinds = _kinds(error)
    for kind, make in _BY_KIND.items():
        if kind in kinds:
            return make(asked, error)
    if (code := status(error)) is not None:
        return _of_status(code, asked, error)
    if "TransportError" in kinds:
        advice = "check the network and HTTPS_PROXY, or give a folder that holds the model"
        return f"cannot read {_what(asked)} from the Hub: {_reason(error)}; {advice}"
    if isinstance(error, OSError):
        return _of_disk(error, asked)
    if "ValueError" in kinds and "proxy" in str(error).lower():
        return (
            f"cannot read {_what(asked)} from the Hub: {printable(error)}; correct or unset HTTPS_PROXY and HTTP_PROXY"
        )
    return (
        f"what {shown_endpoint()} answers about {asked.repo} is not what a Hub answers; "
        "check HF_ENDPOINT, and that no proxy or login page stands between"
    )


def _kinds(error: Exception) -> set[str]:
    # By name: the client changed the library that its network errors come from between its versions 1 and 2.
    return {kind.__name__ for kind in type(error).__mro__}


def _gated(asked: Asked, error: Exception) -> str:
    page = f"{shown_endpoint()}/{asked.repo}"
    if status(error) == 401 or not nearby.has_token():
        return f"{asked.repo} is gated: accept its terms at {page}, then {_LOG_IN} and {_AGAIN}"
    return f"{asked.repo} is gated and your account has no access yet: ask for it at {page}, then {_AGAIN}"


def _no_repository(asked: Asked, error: Exception) -> str:
    if kind := nearby.other_kind(asked.repo):
        return f"{asked.repo} is a {kind} on the Hub, not a model; give a model's id"
    near = nearby.near_repos(asked.repo)
    hint = f"did you mean {' or '.join(near)}?" if near else "check the spelling;"
    access = "use a token that may read it" if nearby.has_token() else _LOG_IN
    return f"there is no model {asked.repo} on {shown_endpoint()}, or it is private; {hint} if it is private, {access}"


def _no_revision(asked: Asked, error: Exception) -> str:
    known = nearby.revisions(asked.repo)
    listed = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
    hint = f"it has {listed}" if known else f"see {shown_endpoint()}/{asked.repo}/tree/main"
    return f"{asked.repo} has no revision {shortened(asked.revision)}; {hint}"


def _no_file(asked: Asked, error: Exception) -> str:
    return f"{asked.file} of {asked.repo} is listed but cannot be had any more; {_AGAIN}, or choose another --revision"


def _disabled(asked: Asked, error: Exception) -> str:
    page = f"{shown_endpoint()}/{asked.repo}"
    return f"{asked.repo} has been disabled; see {page} for the reason, and choose another model"


def _offline(asked: Asked, error: Exception) -> str:
    near = nearby.near_cached(asked.repo)
    hint = f"did you mean {' or '.join(near)}, which is there? else " if near else ""
    told = f"{asked.repo} is not in the cache and HF_HUB_OFFLINE is set"
    return f"{told}; {hint}unset it, or give a folder that holds the model"


def _bad_header(asked: Asked, error: Exception) -> str:
    return f"cannot read {asked.repo} from the Hub: HF_TOKEN holds what no token can; {_LOG_IN} anew"


def _of_status(code: int, asked: Asked, error: Exception) -> str:
    if code == 401 and not nearby.has_token():
        return f"{shown_endpoint()} shows {asked.repo} only to those it knows; {_LOG_IN} and {_AGAIN}"
    if code == 401:
        return f"the Hub does not accept your token for {asked.repo}; {_LOG_IN} anew, or unset HF_TOKEN"
    if code == 403:
        return f"your token may not read {asked.repo}; give it that right at {shown_endpoint()}/settings/tokens"
    if code == 429:
        seconds = waiting_seconds(error)
        when = f"in {seconds} s" if seconds else "in some minutes"
        return f"{shown_endpoint()} has had too many requests from you for {asked.repo}; {_AGAIN} {when}, or {_LOG_IN}"
    return f"{shown_endpoint()} answers with error {code} for {_what(asked)}; {_AGAIN} later"


def _what(asked: Asked) -> str:
    return f"{asked.file} of {asked.repo}" if asked.file else asked.repo


def _of_disk(error: OSError, asked: Asked) -> str:
    from huggingface_hub import constants

    why = (error.strerror or str(error)).lower()
    if error.filename is not None and str(error.filename) == constants.HF_TOKEN_PATH:
        return f"the token in {error.filename} cannot be read ({why}); remove that, and {_LOG_IN} where one is needed"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "what has come is kept: make room, or set HF_HUB_CACHE to another disk, and " + _AGAIN
    else:
        advice = "set HF_HUB_CACHE to a folder that you may write to"
    place = error.filename or cache_folder()
    return f"cannot keep {_what(asked)} in the Hub's cache ({place}: {why}); {advice}"


_BY_KIND: Final = {
    "GatedRepoError": _gated,
    "RepositoryNotFoundError": _no_repository,
    "RevisionNotFoundError": _no_revision,
    "EntryNotFoundError": _no_file,
    "DisabledRepoError": _disabled,
    "OfflineModeIsEnabled": _offline,
    "LocalProtocolError": _bad_header,
    "UnicodeEncodeError": _bad_header,
}
