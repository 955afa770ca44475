"""Bytes that come in pieces."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint.hub import client, retries
from schemegen.checkpoint.hub import transfer as module
from schemegen.checkpoint.hub.listing import Entry
from schemegen.checkpoint.hub.parallel import Stopped
from schemegen.checkpoint.hub.store import Store
from schemegen.checkpoint.hub.transfer import GUESS_BYTES, Transfer
from schemegen.errors import CheckpointError

REPO = "Qwen/Tiny"
DATA = bytes(range(256)) * 4000
NAME = "a.safetensors"


@pytest.fixture
def store(hub: LoopbackHub, cache: Path) -> Store:
    """The cache of a repository with one large file."""
    return Store(cache, REPO, hub.add(REPO, {NAME: DATA, "empty.txt": b""}).commit)


@pytest.fixture
def entry() -> Entry:
    """That file."""
    return Entry(NAME, len(DATA), hashlib.sha256(DATA).hexdigest())


class Counted(list[int]):
    """Adds up what it is called with."""

    def __call__(self, nbytes: int) -> None:
        """Count."""
        self.append(nbytes)


def transfer(store: Store, entry: Entry) -> tuple[Transfer, Counted]:
    """A transfer and what it tells."""
    told = Counted()
    return Transfer(store, entry, threading.Event(), told), told


def ranges(hub: LoopbackHub) -> list[str]:
    """The ranges that were asked for, of the bytes themselves."""
    return [asked for _, path, asked in hub.requests if path.startswith("/cdn/")]


def test_a_file_comes_whole(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    whole, told = transfer(store, entry)
    whole.whole()
    assert (store.snapshot / NAME).read_bytes() == DATA
    assert sum(told) == len(DATA) == hub.sent[NAME]
    assert ranges(hub) == [f"bytes=0-{len(DATA) - 1}"]
    whole.whole()
    assert len(ranges(hub)) == 1


def test_an_empty_file_needs_no_request(store: Store, hub: LoopbackHub) -> None:
    Transfer(store, Entry("empty.txt", 0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"), threading.Event()).whole()
    assert (store.snapshot / "empty.txt").read_bytes() == b""
    assert hub.requests == []


def test_what_breaks_off_goes_on_where_it_was(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    hub.faults += [Fault("/cdn/", cut=300_000, times=1), Fault("/cdn/", 503, times=1), Fault("/cdn/", cut=100, times=1)]
    whole, told = transfer(store, entry)
    whole.whole()
    assert (store.snapshot / NAME).read_bytes() == DATA
    assert sum(told) == len(DATA)
    starts = [int(asked.removeprefix("bytes=").partition("-")[0]) for asked in ranges(hub)]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert starts[1] > 0
    assert starts[1] == starts[2]


def test_tries_begin_anew_with_every_piece_that_comes(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    hub.faults.append(Fault("/cdn/", cut=GUESS_BYTES * 4 + 1, times=3))
    whole, _ = transfer(store, entry)
    whole.whole()
    assert len(retries.WAITS) == 2
    assert (store.snapshot / NAME).read_bytes() == DATA


def test_a_try_that_brings_nothing_is_repeated_only_so_often(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    hub.faults.append(Fault("/cdn/", 503))
    whole, _ = transfer(store, entry)
    with pytest.raises(CheckpointError, match="answers with error 503"):
        whole.whole()
    assert len(ranges(hub)) == 1 + len(retries.WAITS)


def test_a_run_goes_on_from_what_another_left(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    with store.partial(entry) as part:
        part.append(DATA[:12_345])
    whole, told = transfer(store, entry)
    whole.whole()
    assert ranges(hub) == [f"bytes=12345-{len(DATA) - 1}"]
    assert sum(told) == len(DATA) - 12_345
    assert (store.snapshot / NAME).read_bytes() == DATA


def test_a_beginning_that_is_another_files_is_thrown_away(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    with store.partial(entry) as part:
        part.append(b"\0" * 12_345)
    whole, told = transfer(store, entry)
    whole.whole()
    assert [asked.partition("-")[0] for asked in ranges(hub)] == ["bytes=12345", "bytes=0"]
    assert sum(told) == len(DATA) - 12_345
    assert (store.snapshot / NAME).read_bytes() == DATA


def test_a_beginning_that_is_too_long_is_thrown_away(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    with store.partial(entry) as part:
        part.append(DATA + b"!")
    assert store.partial_bytes(entry) == 0
    transfer(store, entry)[0].whole()
    assert ranges(hub) == [f"bytes=0-{len(DATA) - 1}"]


def test_a_server_without_ranges_begins_again(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    hub.faults.append(Fault("/cdn/", ignore_range=True))
    with store.partial(entry) as part:
        part.append(DATA[:12_345])
    whole, told = transfer(store, entry)
    whole.whole()
    assert sum(told) == len(DATA) - 12_345
    assert (store.snapshot / NAME).read_bytes() == DATA


def test_of_a_header_a_server_without_ranges_sends_little_more(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    hub.faults.append(Fault("/cdn/", ignore_range=True))
    hub.bytes_per_second = 20_000_000
    hub.repos[REPO].files[NAME] = data = (20).to_bytes(8, "little") + b"{}" + b" " * 50_000_000
    head = Transfer(store, Entry(NAME, len(data), "0" * 64), threading.Event()).head()
    assert head == data[:28]
    assert hub.sent[NAME] < len(data) / 2


def test_a_header_stays_on_disk_as_the_files_beginning(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    hub.repos[REPO].files[NAME] = data = (100_000).to_bytes(8, "little") + DATA
    listed = Entry(NAME, len(data), hashlib.sha256(data).hexdigest())
    head, _ = transfer(store, listed)
    assert head.head() == data[:100_008]
    assert store.partial_bytes(listed) == 100_008
    head.whole()
    assert hub.sent[NAME] == len(data)
    assert ranges(hub) == ["bytes=0-65535", "bytes=65536-100007", f"bytes=100008-{len(data) - 1}"]


def test_a_file_that_another_process_has_in_hand_gives_its_header(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    with store.locked(entry, wait=False) as mine:
        assert mine
        assert Transfer(store, entry, threading.Event()).head() == DATA[:GUESS_BYTES]
    assert store.partial_bytes(entry) == 0


def test_a_stop_is_heeded_while_bytes_come(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    stop = threading.Event()
    whole = Transfer(store, entry, stop, lambda _: stop.set())
    with pytest.raises(Stopped):
        whole.whole()
    assert 0 < store.partial_bytes(entry) < len(DATA)


def test_a_stop_is_heeded_between_tries(
    store: Store, entry: Entry, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "WAITS", (60.0,))
    hub.faults.append(Fault("/cdn/", 503))
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(Stopped):
        Transfer(store, entry, stop).whole()


def test_what_another_process_brings_is_counted(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    whole, told = transfer(store, entry)
    with store.locked(entry, wait=True):
        waiting = threading.Thread(target=whole.whole)
        waiting.start()
        time.sleep(0.2)
        with store.partial(entry) as part:
            part.append(DATA)
        store.keep(entry)
    waiting.join(30)
    assert sum(told) == len(DATA)
    assert ranges(hub) == []
    assert (store.snapshot / NAME).read_bytes() == DATA


def test_what_the_snapshot_holds_needs_no_right_to_write(
    store: Store, entry: Entry, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer(store, entry)[0].whole()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Store, "locked", refuse)
    transfer(store, entry)[0].whole()
    assert transfer(store, entry)[0].head() == DATA[:GUESS_BYTES]


def test_a_large_file_comes_by_several_requests(
    store: Store, entry: Entry, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub sends no answer above 50 GB; the file goes on from where it broke off like any other."""
    monkeypatch.setattr(module, "MOST_BYTES", 400_000)
    hub.faults.append(Fault("/cdn/", cut=100_000, times=1))
    whole, told = transfer(store, entry)
    whole.whole()
    assert (store.snapshot / NAME).read_bytes() == DATA
    assert sum(told) == len(DATA) == hub.sent[NAME]
    starts = [int(asked.removeprefix("bytes=").partition("-")[0]) for asked in ranges(hub)]
    assert starts == [0, 100_000, 500_000, 900_000]
    assert ranges(hub)[1] == "bytes=100000-499999"
    assert "HEAD" not in {method for method, _, _ in hub.requests}


def test_a_large_file_of_a_server_without_ranges_comes_at_once(
    store: Store, entry: Entry, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 400_000)
    hub.faults.append(Fault("/cdn/", ignore_range=True))
    transfer(store, entry)[0].whole()
    assert ranges(hub) == ["bytes=0-399999"]
    assert (store.snapshot / NAME).read_bytes() == DATA


def test_what_comes_slowly_is_kept_as_it_comes(store: Store, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_CHUNK_SECONDS", 0.0)
    assert [*client._chunks(iter([b"a", b"b", b"c"]))] == [b"a", b"b", b"c"]
    monkeypatch.setattr(client, "_CHUNK_SECONDS", 60.0)
    assert [*client._chunks(iter([b"a", b"b", b"c"]))] == [b"abc"]


def test_a_pipe_in_the_cache_is_not_waited_for(store: Store, entry: Entry, hub: LoopbackHub) -> None:
    with store.partial(entry) as part:
        part.append(b"1")
    [begun] = store.cache.rglob("*.incomplete")
    begun.unlink()
    os.mkfifo(begun)
    with pytest.raises(CheckpointError, match="a pipe or device, and no file; remove it"):
        transfer(store, entry)[0].whole()
    with pytest.raises(CheckpointError, match="a pipe or device, and no file; remove it"):
        transfer(store, entry)[0].head()
