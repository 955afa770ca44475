"""Opens a model on the Hub from headers, and fetches the rest of it when asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from schemegen.checkpoint.assembly import CONFIG_NAME, assemble
from schemegen.checkpoint.files import SAFETENSORS
from schemegen.checkpoint.headers import FIRST_BYTES, Header, header_bytes, parse_header
from schemegen.checkpoint.hub.listing import Entry, Listing
from schemegen.checkpoint.hub.names import HubName
from schemegen.checkpoint.hub.parallel import in_parallel
from schemegen.checkpoint.hub.resolution import (
    Resolved,
    cached_snapshot,
    forget,
    keep,
    listed,
    require_still_listed,
    resolved,
)
from schemegen.checkpoint.hub.settings import quiet_client
from schemegen.checkpoint.hub.store import Store
from schemegen.checkpoint.hub.transfer import GUESS_BYTES, Transfer
from schemegen.checkpoint.index import INDEX_NAME
from schemegen.checkpoint.local import changed_shards, on_disk
from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.reading import MAX_JSON_BYTES, read_text
from schemegen.errors import CheckpointError
from schemegen.progress import Progress

_SHOWN: Final = 3
_SMALL_BYTES: Final = 1 << 26
"""Up to here a file found in the cache is read whole to compare its digest: all but weights, in an instant."""
_SHARED: Final = "download, waiting for another process that has begun it"
_AGAIN: Final = "run the same command again"
_HELP: Final = f"{_AGAIN}; if that does not help, choose another --revision or model"


@quiet_client()
def open_hub(name: HubName) -> Checkpoint:
    """The model at the commit that its revision is now, from its headers; CheckpointError with one sentence."""
    found, listing = listed(resolved(name))
    if listing is None:
        assert found.unreached is not None
        return cached_snapshot(found, found.unreached)
    try:
        opened = _assembled(found, listing)
    except CheckpointError:
        forget(found)
        raise
    keep(found, listing)
    remote = HubRemote(found, tuple(listing[name] for name in _wanted(opened)))
    return replace(opened, remote=remote, notes=found.notes)


def _assembled(found: Resolved, listing: Listing) -> Checkpoint:
    """The checkpoint that the listing, the texts and the headers make."""
    store = found.store
    _require_model(store.repo, listing)
    _prepare_texts(found, listing)
    heads = _heads(found, listing)
    try:
        return assemble(HubContents(store, listing, heads), store.snapshot, store.repo, store.commit)
    except CheckpointError as error:
        # An answer that came from elsewhere must not stand in for the Hub's for ever.
        for shard in heads:
            store.forget_begun(listing[shard])
        raise CheckpointError(f"{store.repo} on the Hub: {error.fault}; {_HELP}") from error


@dataclass(frozen=True, slots=True)
class HubContents:
    """The files of a repository: its texts on disk already, of its safetensors files what they begin with."""

    store: Store
    listing: Listing
    heads: Mapping[str, bytes]

    @property
    def files(self) -> Mapping[str, int]:
        """Bytes of every file that could travel."""
        return {name: entry.size for name, entry in self.listing.items()}

    def text(self, name: str, what: str) -> str:
        """A whole small file."""
        return read_text(self.store.snapshot / name, what)

    def header(self, name: str) -> Header:
        """The header of a safetensors file."""
        head, size = self.heads[name], self.listing[name].size
        return parse_header(head[: header_bytes(head[:FIRST_BYTES], size, name)], name, size)


@dataclass(frozen=True, slots=True)
class HubRemote:
    """The files that a checkpoint needs of its repository, and no other."""

    found: Resolved
    entries: tuple[Entry, ...]

    @property
    def folder(self) -> Path:
        """The Hub client's cache."""
        return self.found.store.cache

    @property
    def missing_bytes(self) -> int:
        """Bytes still to download."""
        return sum(map(self.found.store.missing_bytes, self.entries))

    @quiet_client()
    def fetch(self, checkpoint: Checkpoint, progress: Progress) -> Checkpoint:
        """Download what is missing; the checkpoint in the cache's snapshot, used in place."""
        store = self.found.store
        require_still_listed(self.found)
        _download(self.found, self.entries, progress)
        fetched = on_disk(checkpoint, {entry.name for entry in self.entries}, store.snapshot)
        if fetched is None:
            raise self._other_contents(checkpoint)
        self._require_sound(entry for entry in self.entries if entry.size <= _SMALL_BYTES)
        return fetched

    def _other_contents(self, checkpoint: Checkpoint) -> CheckpointError:
        """What to say of headers that were not the files'; raises where it is a file that is not the one listed."""
        names = {CONFIG_NAME, *changed_shards(checkpoint, self.found.store.snapshot)}
        self._require_sound(entry for entry in self.entries if entry.name in names)
        return CheckpointError(
            f"the headers that first came of {self.found.store.repo} were not those of the files that the Hub lists; "
            f"these are in the cache now: {_AGAIN}"
        )

    def _require_sound(self, entries: Iterable[Entry]) -> None:
        """CheckpointError for a file in the snapshot that is not the one listed; reads all of each."""
        store = self.found.store
        for entry in entries:
            if not store.is_sound(entry):
                place = (store.snapshot / entry.name).resolve()
                raise CheckpointError(
                    f"{entry.name} of {store.repo} in the cache is not what the Hub lists; remove {place} and {_AGAIN}"
                )


def _wanted(checkpoint: Checkpoint) -> list[str]:
    """Every file that a run reads or copies."""
    texts = [CONFIG_NAME, *filter(None, [checkpoint.index_name])]
    return [*texts, *(shard.name for shard in checkpoint.shards), *(file.name for file in checkpoint.side_files)]


def _prepare_texts(found: Resolved, listing: Listing) -> None:
    """Have config.json and the index on disk."""
    entries = [listing[name] for name in (CONFIG_NAME, INDEX_NAME) if name in listing]
    for entry in entries:
        if entry.size > MAX_JSON_BYTES:
            raise CheckpointError(
                f"{found.store.repo} on the Hub: {entry.name} is larger than {MAX_JSON_BYTES:,} bytes"
            )
    _require_reachable(found, entries)
    in_parallel(lambda entry, stop: Transfer(found.store, entry, stop).whole(), entries)


def _heads(found: Resolved, listing: Listing) -> dict[str, bytes]:
    """What every safetensors file begins with, those outside the index too: one of them may hold the MTP block."""
    entries = [entry for name, entry in listing.items() if name.lower().endswith(SAFETENSORS)]
    begun = [entry for entry in entries if found.store.partial_bytes(entry) >= min(GUESS_BYTES, entry.size)]
    _require_reachable(found, [entry for entry in entries if entry not in begun])
    is_offline = found.unreached is not None
    heads = in_parallel(lambda entry, stop: Transfer(found.store, entry, stop, is_offline=is_offline).head(), entries)
    return {entry.name: head for entry, head in zip(entries, heads, strict=True)}


def _download(found: Resolved, entries: tuple[Entry, ...], progress: Progress) -> None:
    store = found.store
    missing = {entry: store.missing_bytes(entry) for entry in entries if store.found(entry) is None}
    if missing:
        _require_reachable(found, list(missing))
        done = sum(map(store.partial_bytes, missing))
        shared = any(map(store.is_taken, missing))
        progress.start(_SHARED if shared else "download", sum(entry.size for entry in missing), done)
    # Largest last would leave one worker alone at the end.
    ordered = sorted(entries, key=lambda entry: -entry.size)
    in_parallel(lambda entry, stop: Transfer(store, entry, stop, progress.advance).whole(), ordered)
    if missing:
        progress.finish()


def _require_reachable(found: Resolved, entries: list[Entry]) -> None:
    """CheckpointError, naming what is missing, where it is known already that nothing can be fetched."""
    missing = [entry for entry in entries if found.store.found(entry) is None]
    if found.unreached is None or not missing:
        return
    names = ", ".join(entry.name for entry in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    raise CheckpointError(
        f"{found.store.repo} is only partly in the cache and {found.unreached.why}: {names}{more} "
        f"({sum(map(found.store.missing_bytes, missing)):,} bytes) are missing; {found.unreached.way_out}"
    )


def _require_model(repo: str, listing: Listing) -> None:
    """CheckpointError for a repository that is no model with safetensors."""
    names = [name.lower() for name in listing]
    if "adapter_config.json" in names and CONFIG_NAME not in listing:
        raise CheckpointError(f"{repo} is an adapter without its base model; merge the two and give the result")
    if any(name.endswith(SAFETENSORS) for name in names):
        if CONFIG_NAME not in listing:
            raise CheckpointError(
                f"{repo} has no {CONFIG_NAME}, so its architecture is unknown; give the repository of the model itself"
            )
        return
    if any(name.endswith(".gguf") for name in names):
        raise CheckpointError(
            f"{repo} holds GGUF files only, quantized already; give the model that they were made from"
        )
    others = next((name for name in listing if name.lower().endswith((".bin", ".pt", ".pth", ".h5", ".msgpack"))), None)
    has = f"only weights such as {others}; convert them first" if others else "and no other weights; check the id"
    raise CheckpointError(f"{repo} has no safetensors file, {has}, or choose a --revision that has them")
