"""Which commit a revision is, and what is there: as the Hub says or, where it cannot be asked, as the cache has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from schemegen.checkpoint.hub import client
from schemegen.checkpoint.hub.faults import Asked, is_unreachable, reason, told
from schemegen.checkpoint.hub.listing import Listing, cached_listing, keep_listing
from schemegen.checkpoint.hub.names import HubName, hub_name, is_commit
from schemegen.checkpoint.hub.store import Store, keep_commit, known_commit
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import CheckpointError

_SHORT: Final = 12


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model at one commit; `unreached` says why the Hub could not be asked, if it could not."""

    store: Store
    revision: str
    unreached: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def way_out(self) -> str:
        """What a person may do about an unreached Hub."""
        if self.unreached and "HF_HUB_OFFLINE" in self.unreached:
            return "unset HF_HUB_OFFLINE and run again"
        return "run again with a network"


def resolved(name: HubName) -> Resolved:
    """The commit of the name's revision, asked for once; a whole hash needs no asking."""
    from huggingface_hub import constants

    client.endpoint()
    cache = Path(constants.HF_HUB_CACHE).expanduser().absolute()
    revision = name.revision or client.MAIN
    if is_commit(revision):
        offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else None
        return Resolved(Store(cache, name.repo, revision), revision, offline)
    with told(Asked(name.repo, revision)):
        try:
            repo, commit = client.resolve(name.repo, revision)
        except Exception as error:
            return _as_known(error, cache, name.repo, revision)
    if hub_name(repo) != HubName(repo):
        raise CheckpointError(f"the Hub calls {name.repo} {repo!r}, which is no model's id; check HF_ENDPOINT")
    keep_commit(cache, repo, revision, commit)
    renamed = (f"{name.repo} is {repo} on the Hub",) if repo != name.repo else ()
    return Resolved(Store(cache, repo, commit), revision, None, renamed)


def _as_known(error: Exception, cache: Path, repo: str, revision: str) -> Resolved:
    """What the cache knows of a revision that the Hub cannot be asked about."""
    commit = known_commit(cache, repo, revision) if is_unreachable(error) else None
    if commit is None:
        raise error
    why = reason(error)
    note = f"{why}: {repo} is taken from the cache, as {revision} was when last seen ({commit[:_SHORT]})"
    return Resolved(Store(cache, repo, commit), revision, why, (note,))


def listed(found: Resolved) -> tuple[Resolved, Listing | None]:
    """What the repository holds; None where the Hub cannot be asked and was not asked before, which is noted."""
    repo, commit = found.store.repo, found.store.commit
    if (listing := cached_listing(repo, commit)) is not None or found.unreached is not None:
        return found, listing
    with told(Asked(repo, found.revision)):
        try:
            listing = client.list_files(repo, commit)
        except CheckpointError as error:
            raise CheckpointError(f"{repo} on the Hub {error}; choose another --revision or model") from error
        except Exception as error:
            if not is_unreachable(error) or not found.store.snapshot.is_dir():
                raise
            why = reason(error)
            return replace(found, unreached=why, notes=(*found.notes, f"{why}: {repo} is taken from the cache")), None
    keep_listing(repo, commit, listing)
    return found, listing


def cached_snapshot(found: Resolved) -> Checkpoint:
    """What the Hub's client has of the model, which nobody can compare with what there should be."""
    if not found.store.snapshot.is_dir():
        raise CheckpointError(f"{found.store.repo} is not in the cache and {found.unreached}; {found.way_out}")
    try:
        return open_local(found.store.snapshot)
    except CheckpointError as error:
        raise CheckpointError(
            f"{found.store.repo} is only partly in the cache and {found.unreached}: {error}; {found.way_out}"
        ) from error
