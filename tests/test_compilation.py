"""Kernels are compiled before the work begins, and said so once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import schemegen
from schemegen.codecs import codec_of
from schemegen.formats import DTYPE_BITS, pieces
from schemegen.kernels import native
from schemegen.progress import Silent
from schemegen.testing.probe_formats import probe_formats

#: Longer than all work on the sample.
_LONG: Final = 3600.0


class Remembers(Silent):
    """A Progress with a place for remarks."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def remark(self, line: str) -> None:
        self.said.append(line)

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.said.append(label)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch, sample_folder: Path, tmp_path: Path) -> list[str]:
    """Makes this a process without kernels on a machine without any; grows with each that is compiled."""
    read, compiled = native._read, []

    def compile_(module: str, builder: str, options: tuple[str | int, ...]) -> bytes:
        name = "-".join(map(str, (module, builder, *options)))
        compiled.append(name)
        if (code := read(name)) is None:
            code = real(module, builder, options)
            store(name, code)
        return code

    real, store = native._compile, native._store
    monkeypatch.setattr(native, "_engines", {})
    monkeypatch.setattr(native, "_read", lambda name: None)
    monkeypatch.setattr(native, "_store", lambda name, code: None)
    monkeypatch.setattr(native, "_compile", compile_)
    return compiled


def test_a_run_says_what_it_compiles_before_its_clock_starts(
    cold: list[str], sample_folder: Path, tmp_path: Path
) -> None:
    shown = Remembers()
    made = schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", device="cpu", progress=shown)
    assert shown.said == ["compiling kernels for INT4 g32, once on this machine", "quantize"]
    assert cold == ["int_symmetric-quantize-BF16-4-32-1"]
    cold.clear()
    shown.said.clear()
    report = schemegen.verify(made.path, sample_folder, progress=shown)
    assert shown.said == ["compiling kernels for INT4 g32, once on this machine", "verify"]
    assert cold == ["int_symmetric-recode-BF16-4-32-1"]
    assert report.seconds > 0
    shown.said.clear()
    schemegen.verify(made.path, sample_folder, progress=shown)
    assert shown.said == ["verify"]


def test_a_progress_needs_no_place_for_remarks(cold: list[str], sample_folder: Path, tmp_path: Path) -> None:
    schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", device="cpu", progress=Silent())
    assert cold


@pytest.mark.usefixtures("cold")
def test_the_time_it_takes_is_none_of_the_works(
    sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Silent):
        """Has hours go by."""

        passed = 0.0

        def remark(self, line: str) -> None:
            self.passed += _LONG

    slow, clock = Slow(), time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + slow.passed)
    made = schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", device="cpu", progress=slow)
    report = schemegen.verify(made.path, sample_folder, progress=slow)
    assert slow.passed == 2 * _LONG
    assert made.seconds < _LONG
    assert report.seconds < _LONG


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_every_kernel_of_a_format_is_warm_before_it_is_used(dtype: str, cold: list[str]) -> None:
    for format in probe_formats():
        codec, shape = codec_of(format), (1, 8, 256)
        weights = np.zeros(shape, f"u{DTYPE_BITS[dtype] // 8}")
        stored = {
            piece.suffix: np.full((1, *piece.shape), 1, f"u{DTYPE_BITS[piece.dtype] // 8}")
            for piece in pieces(format, dtype, *shape[1:])
            if piece.suffix != "weight_shape"
        }
        codec.warm_up(dtype, shape[2])
        codec.warm_up_recode(dtype, shape[2])
        cold.clear()
        codec.encode(weights, dtype, stored, np.ones(1, np.float32))
        codec.recode(weights, dtype, stored)
        assert cold == [], format
