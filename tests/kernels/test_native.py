from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemegen.kernels import compiler, native

KERNEL: tuple[Any, ...] = ("int_symmetric", "decode", "F32", 8, 32, 1)
Fresh = Callable[..., int]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Fresh:
    """(*folders) → the address a process that has loaded nothing yet gets, with these cache folders."""

    def address(*folders: Path) -> int:
        monkeypatch.setattr(native, "_engines", {})
        monkeypatch.setattr(native, "_folders", lambda: iter(folders))
        return native.address(*KERNEL)

    return address


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every kernel that is compiled."""
    symbols: list[str] = []

    def emit(source: Any, symbol: str, machine: Any, real: Any = compiler.emit) -> bytes:
        symbols.append(symbol)
        return bytes(real(source, symbol, machine))

    monkeypatch.setattr(compiler, "emit", emit)
    return symbols


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A folder that nobody can make, root included: its parent is a file."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "cache"


def decodes(address: int) -> bool:
    """Whether the code there decodes codes 1, 2, 3, 4 with scale 0.5, then 28 lowest ones."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)(address)
    weights, packed, scales = np.zeros(32, np.float32), np.zeros(8, np.uint32), np.full(1, 0.5, np.float32)
    packed[0] = 0x84838281
    function(weights.ctypes.data, packed.ctypes.data, scales.ctypes.data, 1, 32)
    return weights.tolist() == [0.5, 1.0, 1.5, 2.0] + [-64.0] * 28


def test_code_is_compiled_once_and_kept(fresh: Fresh, compilations: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    assert decodes(fresh(folder))
    assert len(list(folder.iterdir())) == 1
    assert decodes(fresh(folder))
    assert len(compilations) == 1


def test_a_folder_that_cannot_be_written_is_passed_over(
    fresh: Fresh, compilations: list[str], tmp_path: Path, blocked: Path
) -> None:
    folder = tmp_path / "cache"
    assert decodes(fresh(blocked, folder))
    assert len(list(folder.iterdir())) == 1
    assert decodes(fresh(blocked, folder))
    assert len(compilations) == 1


def test_code_is_kept_in_every_folder_and_found_in_any(fresh: Fresh, compilations: list[str], tmp_path: Path) -> None:
    beside, cache = tmp_path / "beside", tmp_path / "cache"
    fresh(beside, cache)
    (first,), (second,) = beside.iterdir(), cache.iterdir()
    assert first.read_bytes() == second.read_bytes()
    for found, lost in ((first, second), (second, first)):
        lost.unlink()
        assert decodes(fresh(beside, cache))
        lost.write_bytes(found.read_bytes())
    assert len(compilations) == 1


def test_whoever_watches_is_told_once_and_only_when_something_is_compiled(
    fresh: Fresh, compilations: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    with native.watching(lambda: told.append(len(compilations))) as cold:
        fresh(tmp_path / "one")
        fresh(tmp_path / "two")
    with native.watching(lambda: told.append(-1)) as warm:
        fresh(tmp_path / "one")
    fresh(tmp_path / "three")
    assert told == [0]
    assert (cold.kernels, warm.kernels) == (2, 0)
    assert cold.seconds > warm.seconds == 0
    assert len(compilations) == 3


def test_without_any_folder_each_process_compiles(fresh: Fresh, compilations: list[str], blocked: Path) -> None:
    assert decodes(fresh(blocked))
    assert decodes(fresh(blocked))
    assert len(compilations) == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:100] + b"?" + data[101:], lambda _: b""])
def test_damaged_code_is_compiled_again(
    fresh: Fresh, compilations: list[str], tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    fresh(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert decodes(fresh(tmp_path))
    assert len(compilations) == 2
    assert path.stat().st_size == len(whole)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_waited_for(
    fresh: Fresh, compilations: list[str], tmp_path: Path, make: Callable[[Path], None]
) -> None:
    fresh(tmp_path)
    (path,) = tmp_path.iterdir()
    path.unlink()
    make(path)
    os.mkfifo(f"{path}.{os.getpid()}")
    assert decodes(fresh(tmp_path))
    assert len(compilations) == 2


def test_what_is_larger_than_code_is_not_read(fresh: Fresh, compilations: list[str], tmp_path: Path) -> None:
    fresh(tmp_path)
    (path,) = tmp_path.iterdir()
    os.truncate(path, 1 << 40)
    assert decodes(fresh(tmp_path))
    assert len(compilations) == 2


def test_a_user_without_a_home_has_one_place_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "cache_home", lambda: None)
    assert list(native._folders()) == [native.HERE / "__pycache__"]


def test_a_changed_source_is_compiled_again(
    fresh: Fresh, compilations: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, folder = tmp_path / "sources", tmp_path / "cache"
    sources.mkdir()
    monkeypatch.setattr(native, "HERE", sources)
    uncached = native._fingerprint.__wrapped__
    for text in ("a = 1\n", "a = 2\n"):
        (sources / "bits.py").write_text(text)
        monkeypatch.setattr(native, "_fingerprint", uncached)
        fresh(folder)
    assert len(compilations) == 2


def test_threads_share_one_compilation(compilations: list[str], fresh: Fresh, tmp_path: Path) -> None:
    fresh(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    native._engines.clear()
    with ThreadPoolExecutor(8) as pool:
        addresses = set(pool.map(lambda _: native.address(*KERNEL), range(16)))
    assert len(addresses) == 1
    assert len(compilations) == 2


def test_a_warm_process_does_not_import_numba(tmp_path: Path) -> None:
    script = (
        "import sys; from schemegen.kernels.cpu import warm_up; warm_up('BF16', 4, 32);"
        "print(*{'numba', 'torch', 'llvmlite'} & set(sys.modules))"
    )
    environment = {**os.environ, "SCHEMEGEN_CACHE": str(tmp_path), "PYTHONPATH": str(native.HERE.parents[1])}
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
    assert run.stdout.split() == ["llvmlite"]


def test_the_cache_is_beside_the_package_and_the_users_by_what_the_code_depends_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "_fingerprint", lambda: bytes(range(32)))
    assert list(native._folders()) == [native.HERE / "__pycache__", tmp_path / "kernels" / "0001020304050607"]


def test_a_new_environment_finds_what_another_compiled(tmp_path: Path) -> None:
    """A copy of the package, as a second virtual environment has, compiles nothing."""
    script = (
        "import sys; from schemegen.kernels.cpu import warm_up; warm_up('F32', 8, 32); print('numba' in sys.modules)"
    )
    root, said = native.HERE.parents[1], []
    for name in ("one", "two"):
        package = tmp_path / name / "schemegen"
        shutil.copytree(root / "schemegen", package, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {**os.environ, "SCHEMEGEN_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(package.parent)}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        said.append(run.stdout.strip())
    assert said == ["True", "False"]


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "kernel.bin").mkdir()
    with pytest.raises(OSError, match=r"kernel\.bin"):
        native._replace(tmp_path / "kernel.bin", b"code")
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.bin"]
