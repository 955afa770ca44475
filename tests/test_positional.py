"""Positional I/O: equal bytes with and without vector calls, short files, several parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemegen import positional


@pytest.fixture(params=["vector", "seek"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(positional, "HAS_VECTOR_IO", request.param == "vector")
    return str(request.param)


def test_write_and_read_back(way: str, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    try:
        parts = [memoryview(b"abc"), memoryview(b""), memoryview(b"defg")]
        assert positional.write_at(descriptor, parts, 5) == 7
        buffer = memoryview(bytearray(20))
        assert positional.read_into(descriptor, buffer, 0) == 12
        assert bytes(buffer[:12]) == b"\0" * 5 + b"abcdefg"
        assert positional.read_into(descriptor, buffer[:4], 6) == 4
        assert bytes(buffer[:4]) == b"bcde"
    finally:
        os.close(descriptor)


def test_short_system_calls_are_finished(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"vector": ("preadv", "pwritev"), "seek": ("readv", "writev")}[way]
    for name in calls:
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda fd, views, *at, real=real: real(fd, [views[0][:3]], *at))
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    try:
        assert positional.write_at(descriptor, [memoryview(bytes(range(100)))], 0) == 100
        buffer = memoryview(bytearray(100))
        assert positional.read_into(descriptor, buffer, 0) == 100
        assert bytes(buffer) == bytes(range(100))
    finally:
        os.close(descriptor)


def test_a_disk_that_takes_nothing_is_an_error_and_no_endless_loop(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, {"vector": "pwritev", "seek": "writev"}[way], lambda *_: 0)
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(OSError, match="takes no bytes"):
            positional.write_at(descriptor, [memoryview(b"abc")], 0)
    finally:
        os.close(descriptor)
