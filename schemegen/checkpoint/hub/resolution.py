"""Which commit a revision is, and what is there: as the Hub says or, where it cannot be asked, as the cache has it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from schemegen.checkpoint.hub import client, nearby
from schemegen.checkpoint.hub.faults import OFFLINE, Asked, Unreached, in_one_sentence, is_unreachable, unreached
from schemegen.checkpoint.hub.listing import Listing, cached_listing, forget_listing, keep_listing
from schemegen.checkpoint.hub.names import HubName, hub_name, is_commit
from schemegen.checkpoint.hub.retries import answered
from schemegen.checkpoint.hub.settings import cache_folder, endpoint, quiet_client
from schemegen.checkpoint.hub.store import Store, keep_commit, known_commit
from schemegen.checkpoint.index import is_plain
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import CheckpointError, shortened

_SHORT: Final = 12


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model at one commit; `unreached` says why the Hub could not be asked, if it could not.

    `is_recalled`: what it holds was listed to an earlier run.
    """

    store: Store
    revision: str
    unreached: Unreached | None = None
    notes: tuple[str, ...] = ()
    is_recalled: bool = field(default=False, compare=False)


@quiet_client()
def resolved(name: HubName) -> Resolved:
    """The commit of the name's revision, asked for once; a whole hash needs no asking."""
    endpoint()
    from huggingface_hub import constants

    cache = cache_folder()
    revision = name.revision or client.MAIN
    if not is_plain(revision):  # '..' would lead an address elsewhere
        raise CheckpointError(
            f"revision {shortened(revision)} can be none of {name.repo}; give a branch, a tag or a commit"
        )
    if is_commit(revision):
        offline = OFFLINE if constants.HF_HUB_OFFLINE else None
        return Resolved(Store(cache, name.repo, revision), revision, offline)
    with in_one_sentence(Asked(name.repo, revision)):
        try:
            repo, commit = answered(lambda: client.resolve(name.repo, revision))
        except Exception as error:
            return _as_known(error, cache, name.repo, revision)
    if hub_name(repo) != HubName(repo):
        raise CheckpointError(f"the Hub calls {name.repo} {shortened(repo)}, which is no model's id; check HF_ENDPOINT")
    keep_commit(cache, repo, revision, commit)
    renamed = (f"{name.repo} is {repo} on the Hub",) if repo != name.repo else ()
    return Resolved(Store(cache, repo, commit), revision, None, renamed)


def _as_known(error: Exception, cache: Path, repo: str, revision: str) -> Resolved:
    """What the cache knows of a revision that the Hub cannot be asked about."""
    commit = known_commit(cache, repo, revision) if is_unreachable(error) else None
    if commit is None:
        raise error
    why = unreached(error)
    note = f"{why.why}: {repo} is taken from the cache, as {revision} was when last seen ({commit[:_SHORT]})"
    return Resolved(Store(cache, repo, commit), revision, why, (note,))


def listed(found: Resolved) -> tuple[Resolved, Listing | None]:
    """What the repository holds; None where the Hub cannot be asked and was not asked before, which is noted."""
    store = found.store
    if (listing := cached_listing(endpoint(), store.repo, store.commit)) is not None:
        return replace(found, is_recalled=True), listing
    if found.unreached is not None:
        return found, None
    with in_one_sentence(Asked(store.repo, found.revision)):
        try:
            return found, _ask(found)
        except Exception as error:
            if not is_unreachable(error) or not store.snapshot.is_dir():
                raise
            why = unreached(error)
            notes = (*found.notes, f"{why.why}: {store.repo} is taken from the cache")
            return replace(found, unreached=why, notes=notes), None


def keep(found: Resolved, listing: Listing) -> None:
    """Have the next run know what the repository holds, once that has proved to be a model."""
    if not found.is_recalled:
        keep_listing(endpoint(), found.store.repo, found.store.commit, listing)


def forget(found: Resolved) -> None:
    """Have the next run ask what the repository holds, if it can: what was listed is no model."""
    if found.unreached is None:
        forget_listing(endpoint(), found.store.repo, found.store.commit)


@quiet_client()
def require_still_listed(found: Resolved) -> None:
    """CheckpointError where the Hub lists otherwise than to the earlier run that this one relies on.

    A commit fixes what it holds; an answer that came from elsewhere, or was cut short, must not stand for ever.
    """
    repo, commit = found.store.repo, found.store.commit
    if not found.is_recalled or found.unreached is not None:
        return
    with in_one_sentence(Asked(repo, found.revision)):
        try:
            listing = _ask(found)
        except Exception as error:
            if is_unreachable(error):
                return
            raise
    if listing != cached_listing(endpoint(), repo, commit):
        forget_listing(endpoint(), repo, commit)
        raise CheckpointError(
            f"{repo} was listed otherwise before than the Hub lists it now, and that is forgotten; "
            "run the same command again"
        )


def _ask(found: Resolved) -> Listing:
    repo, commit = found.store.repo, found.store.commit
    try:
        return answered(lambda: client.list_files(repo, commit))
    except CheckpointError as error:
        raise CheckpointError(f"{repo} on the Hub {error}; choose another --revision or model") from error


def cached_snapshot(found: Resolved, why: Unreached) -> Checkpoint:
    """What the Hub's client has of the model, which nobody can compare with what there should be, as a note says."""
    repo, snapshot = found.store.repo, found.store.snapshot
    if not snapshot.is_dir():
        near = nearby.near_cached(repo)
        hint = f"did you mean {' or '.join(near)}, which is in the cache? else " if near else ""
        raise CheckpointError(f"{repo} is not in the cache and {why.why}; {hint}{why.way_out}")
    try:
        opened = open_local(snapshot)
    except CheckpointError as error:
        raise CheckpointError(f"{repo} is only partly in the cache and {why.why}: {error}; {why.way_out}") from error
    count = len(opened.side_files)
    note = (
        f"{why.why}: every shard that the index names is in the cache; whether the other files of {repo} are complete "
        f"is unknown ({count} besides config and index are there)"
    )
    return replace(opened, model_id=repo, revision=found.store.commit, notes=(*found.notes, note))
