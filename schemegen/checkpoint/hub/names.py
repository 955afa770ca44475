"""Tells whether a MODEL argument names a model on the Hub, without the Hub's client, which takes long to import."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from schemegen.errors import CheckpointError, shortened

_ADDRESS: Final = re.compile(r"(?:(https?)://)?(?:www\.)?([^/?#]+)/([^?#]*)(?:[?#].*)?", re.IGNORECASE)
_HOSTS: Final = frozenset({"huggingface.co", "hf.co"})
_OTHER_KINDS: Final = {"datasets": "a dataset", "spaces": "a space", "kernels": "a kernel"}
_OF_FILES: Final = frozenset({"blob", "resolve", "raw", "commit", "blame", "edit"})
_PART: Final = re.compile(r"[A-Za-z0-9_](?:[\w.-]{0,94}\w)?", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_EXAMPLE: Final = "a Hub id is ORG/NAME, such as Qwen/Qwen3.6-35B-A3B"


@dataclass(frozen=True, slots=True)
class HubName:
    """A model on the Hub: ORG/NAME, and the revision that its address names, if any."""

    repo: str
    revision: str | None = None


def hub_name(model: str) -> HubName | None:
    """What ORG/NAME or a Hub address names, None for anything else; CheckpointError for an id that cannot be one."""
    if model.lower().startswith("hf://"):
        raise CheckpointError(f"{shortened(model)} is an address of the Hub's file system; {_EXAMPLE}")
    address = _ADDRESS.fullmatch(model)
    if address and address[2].lower() in _hosts():
        return _of_address(model, [part for part in address[3].split("/") if part])
    if address and address[1]:
        raise CheckpointError(f"{shortened(model)} is no address on the Hub; {_EXAMPLE}")
    if kind := _OTHER_KINDS.get(model.partition("/")[0]):
        if model.count("/") == 2:
            raise _of_other_kind(model, kind)
        return None
    if not _looks_like_id(model):
        return None
    _require_valid(model.rstrip("/"))
    return HubName(model.rstrip("/"))


def is_commit(revision: str) -> bool:
    """Whether a revision is a whole commit hash."""
    return _COMMIT.fullmatch(revision) is not None


def _hosts() -> frozenset[str]:
    """Hosts whose addresses are the Hub's: its own, and the one that stands in for it."""
    try:
        host = urlsplit(os.environ.get("HF_ENDPOINT", "")).netloc.lower()
    except ValueError:
        host = ""
    return _HOSTS | {host} - {""}


def _of_address(model: str, parts: list[str]) -> HubName:
    if parts and (kind := _OTHER_KINDS.get(parts[0])):
        raise _of_other_kind("/".join(parts[:3]), kind)
    if len(parts) > 3 and parts[2] in _OF_FILES:
        known = f"give {shortened('/'.join(parts[:2]))} with --revision {shortened(unquote(parts[3]))}"
        raise CheckpointError(
            f"{shortened(model)} is the address of a file or a commit, not of a model's page; {known}"
        )
    if len(parts) < 2 or (len(parts) > 2 and (parts[2] != "tree" or len(parts) == 3)):
        raise CheckpointError(f"{shortened(model)} is not the address of a model's page; {_EXAMPLE}")
    repo = "/".join(parts[:2])
    _require_valid(repo)
    return HubName(repo, unquote("/".join(parts[3:])) or None)


def _of_other_kind(name: str, kind: str) -> CheckpointError:
    return CheckpointError(f"{shortened(name)} is {kind}, not a model; {_EXAMPLE}")


def _looks_like_id(model: str) -> bool:
    first, slash, second = model.rstrip("/").partition("/")
    plain = model.isprintable() and "\\" not in model and len(model) < 250
    return bool(plain and slash and first and second and "/" not in second and first[0] not in ".~")


def _require_valid(repo: str) -> None:
    """The client's own rules for an id, which it would check after a second of import."""
    good = all(map(_PART.fullmatch, repo.split("/"))) and "--" not in repo and ".." not in repo
    if not good or repo.endswith(".git"):
        raise CheckpointError(
            f"there is no folder {shortened(repo)}, and no Hub id is spelled so: each part has at most 96 letters, "
            "digits, '-', '_' and '.', begins and ends with none of '-' and '.', and has no '--', no '..' and no "
            f"'.git' at its end; {_EXAMPLE}"
        )
