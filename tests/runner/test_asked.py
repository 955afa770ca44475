"""What a library call may ask for."""

from __future__ import annotations

import pytest

from schemegen.errors import UnsupportedError
from schemegen.runner.asked import devices_of, revision_of, workers_of


def test_devices_are_one_name_or_several() -> None:
    assert devices_of("cpu") == ("cpu",)
    assert devices_of(["cuda:0", "cuda:1"]) == ("cuda:0", "cuda:1")
    assert devices_of(name for name in ("cpu",)) == ("cpu",)


@pytest.mark.parametrize("device", [None, 0, [], {}, [0], ["cpu", None], iter(())])
def test_what_names_no_device_is_refused(device: object) -> None:
    with pytest.raises(UnsupportedError, match=r"names no device; give cpu"):
        devices_of(device)


def test_a_revision_is_text() -> None:
    assert revision_of(None) is None
    assert revision_of("main") == "main"
    for revision in ("", 5, b"main", ["main"]):
        with pytest.raises(UnsupportedError, match=r"is no branch, tag or commit"):
            revision_of(revision)


def test_workers_are_counted_from_one() -> None:
    assert workers_of(3) == 3
    assert workers_of(None) >= 1
    for jobs in (0, -1, "2", 1.5, True):
        with pytest.raises(UnsupportedError, match=r"is no number of workers"):
            workers_of(jobs)


def test_a_long_value_is_cut() -> None:
    with pytest.raises(UnsupportedError) as caught:
        devices_of([0] * 10_000)
    assert len(str(caught.value)) < 300
