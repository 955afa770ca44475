"""Headers that safetensors opens, and a sink that keeps what is there."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import schemegen
from schemegen.errors import OutputError
from schemegen.writer import FileSink, data_bytes, header_of


def test_headers_are_aligned_and_say_format_pt(sample_folder: Path) -> None:
    plan = schemegen.plan("kimi-k2-int4", sample_folder)
    for file in plan.files:
        header = header_of(plan, file)
        assert len(header) % 8 == 0
        assert int.from_bytes(header[:8], "little") == len(header) - 8
        entries = json.loads(header[8:])
        assert entries.pop("__metadata__") == {"format": "pt"}
        assert len(entries) == len(plan.outputs[file])
        assert max(entry["data_offsets"][1] for entry in entries.values()) == data_bytes(plan, file)


def test_safetensors_opens_what_is_laid_out(sample_folder: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    plan = schemegen.plan("kimi-k2-int4", sample_folder)
    file = plan.files[0]
    header = header_of(plan, file)
    sink = FileSink(tmp_path)
    sink.create(file, len(header) + data_bytes(plan, file))
    sink.write_at(file, 0, [memoryview(header)])
    sink.close()
    with safe_open(tmp_path / file, framework="np") as opened:
        assert set(opened.keys()) == {output.name for output in plan.outputs[file]}


def test_creating_again_keeps_bytes_and_sets_the_length(tmp_path: Path) -> None:
    for size in (10, 4, 8):
        sink = FileSink(tmp_path)
        sink.create("sub/f", size)
        sink.write_at("sub/f", 0, [memoryview(b"ab"), memoryview(b"cd")])
        sink.commit()
        sink.close()
        assert (tmp_path / "sub/f").read_bytes() == b"abcd" + b"\0" * (size - 4)


def test_a_fault_of_the_early_flush_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def broken(_: int) -> None:
        failed.set()
        raise OSError(5, "Input/output error")

    sink = FileSink(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        sink.create("f", 4)
        assert failed.wait(10)
        sink.close()
    with pytest.raises(OutputError, match="Input/output error"):
        sink.commit()


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    sink = FileSink(tmp_path)
    sink.create("f", 4)
    monkeypatch.setattr(os, "pwritev", full, raising=False)
    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OutputError, match="No space left on device; what was written is kept"):
        sink.write_at("f", 0, [memoryview(b"abcd")])
    sink.close()
