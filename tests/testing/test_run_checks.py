"""Runs with a backend that nobody registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

import schemegen
from schemegen import PluginError, UnsupportedError
from schemegen.backends.native_rtn import NativeRtn
from schemegen.formats.words import in_short
from schemegen.manifest import read_manifest
from schemegen.scheme import Format
from schemegen.testing import check_backend
from schemegen.testing.run_checks import Stop


class Own(NativeRtn):
    """The native backend under a name of its own."""

    name: ClassVar[str] = "own"


class Picky(Own):
    def refuses(self, format: Format) -> str | None:
        return "takes nothing"


def test_a_backend_need_not_be_registered(sample_folder: Path, finished: Path, tmp_path: Path) -> None:
    schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", backend=Own())
    assert read_manifest(tmp_path / "out").backend == "own"
    for shard in finished.glob("*.safetensors"):
        assert (tmp_path / "out" / shard.name).read_bytes() == shard.read_bytes()


def test_it_may_have_the_name_of_one_that_is(sample_folder: Path, tmp_path: Path) -> None:
    class Native(Picky):
        name: ClassVar[str] = "native-rtn"

    with pytest.raises(UnsupportedError, match="takes nothing"):
        schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", backend=Native())


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        (Own, r"of .*test_run_checks \(not registered\): a backend must be a Backend, not the class Own"),
        (type("Bad", (Own,), {"name": "Own Backend"})(), "'Own Backend' cannot name a backend"),
    ],
)
def test_what_is_no_backend_is_refused_before_anything_starts(
    backend: Any, told: str, sample_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(PluginError, match=told):
        schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", backend=backend)
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_of_its_own_names_it(sample_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="backend own refuses format 'int4': it takes nothing; choose one"):
        schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", backend=Picky())


def test_a_run_is_stopped_after_a_third_of_what_is_quantized() -> None:
    stop = Stop()
    stop.start("verify", 30)
    stop.advance(30)
    stop.start("quantize", 30)
    stop.advance(10)
    with pytest.raises(KeyboardInterrupt):
        stop.advance(1)


def test_a_persons_own_interruption_of_the_checks_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(Own):
        def refuses(self, format: Format) -> str | None:
            return super().refuses(format) if in_short(format) == "INT4 g32" else "is not asked for"

    def advance(self: Stop, nbytes: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Stop, "advance", advance)
    with pytest.raises(KeyboardInterrupt):
        check_backend(Narrow)
