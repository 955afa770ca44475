"""Opens the source that an output is compared with, at the revision that the output was made from."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.hub.names import HubName, hub_name
from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.source import named_on_hub
from schemegen.errors import CheckpointError, UnsupportedError
from schemegen.manifest import Manifest


def source_of(manifest: Manifest, against: str | Path | None, revision: str | None) -> Checkpoint | None:
    """The source to compare with, if one is given; a Hub id without a revision means the one of the manifest.

    UnsupportedError for a revision of nothing, CheckpointError for a source that cannot be opened.
    """
    if against is None:
        if revision is not None:
            raise UnsupportedError(f"revision {revision!r} is that of the model to compare with; name it with against")
        return None
    named = None if revision is not None or manifest.revision is None else named_on_hub(against)
    if named is None or named.revision is not None or not _is_one_repository(named, manifest.model_id):
        return open_checkpoint(against, revision)
    from schemegen.checkpoint.hub.opening import open_hub

    # By the name that the run knew it by, under which the cache has it.
    return open_hub(HubName(manifest.model_id, manifest.revision))


def _is_one_repository(named: HubName, model_id: str) -> bool:
    """Whether two ids lead to one repository: the Hub knows no case, and leads from an old name to the new one."""
    # An id that leads nowhere is not the other; whoever opens it tells why.
    with suppress(CheckpointError):
        recorded = hub_name(model_id)
        if recorded is None or recorded.repo != model_id:
            return False
        return named.repo.lower() == model_id.lower() or _own_name(named) == _own_name(recorded)
    return False


def _own_name(named: HubName) -> str:
    """The name that the Hub gives a repository, in small letters."""
    from schemegen.checkpoint.hub.resolution import resolved

    return resolved(named).store.repo.lower()
