"""Machine code of the kernels, kept as object files: compiled once, then linked by later processes without numba.

numba's own cache costs every process the import of numba (0.3 s) and of its type system (0.25 s), this one less than
0.1 s in all. It also goes on running old code after a change in a helper that a kernel imports.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemegen.data import cache_home

HERE = Path(__file__).parent
SYMBOL = "schemegen_kernel"
DIGEST_SIZE = 32
#: Far more than any kernel takes.
MAX_CODE_BYTES = 16 << 20


@dataclass(slots=True)
class Compilation:
    """What is compiled while somebody watches: how many kernels, and the seconds that it took."""

    tell: Callable[[], None]
    kernels: int = 0
    seconds: float = 0.0


_watched: ContextVar[Compilation | None] = ContextVar("watched", default=None)
_lock = threading.Lock()
# The code lives as long as its engine.
_engines: dict[str, Any] = {}


def address(module: str, builder: str, *options: str | int) -> int:
    """Address of the code of `builder(*options)` in `schemegen.kernels.<module>`: loaded, linked or compiled, once."""
    name = "-".join(map(str, (module, builder, *options)))
    with _lock:
        if name not in _engines:
            code = _read(name)
            if code is None:
                with _timed():
                    code = _compile(module, builder, options)
                _store(name, code)
            _engines[name] = _link(code)
        return int(_engines[name].get_function_address(SYMBOL))


@contextlib.contextmanager
def watching(tell: Callable[[], None]) -> Iterator[Compilation]:
    """Count what this thread compiles meanwhile; `tell` is called before the first kernel, if there is one."""
    found = Compilation(tell)
    token = _watched.set(found)
    try:
        yield found
    finally:
        _watched.reset(token)


@contextlib.contextmanager
def _timed() -> Iterator[None]:
    watched, began = _watched.get(), time.perf_counter()
    if watched is not None and not watched.kernels:
        watched.tell()
    yield
    if watched is not None:
        watched.kernels += 1
        watched.seconds += time.perf_counter() - began


def target_machine() -> Any:
    """An llvmlite target machine for this very CPU."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=3, reloc="default", codemodel="jitdefault", jit=True
    )


def _features() -> str:
    import llvmlite.binding as llvm

    try:
        return str(llvm.get_host_cpu_features().flatten())
    except RuntimeError:  # no detection on this platform: the CPU's name says enough
        return ""


def _compile(module: str, builder: str, options: tuple[str | int, ...]) -> bytes:
    from schemegen.kernels.compiler import emit

    source = getattr(importlib.import_module(f"schemegen.kernels.{module}"), builder)(*options)
    return emit(source, SYMBOL, target_machine())


def _link(code: bytes) -> Any:
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@functools.cache
def _fingerprint() -> bytes:
    """What machine code depends on: the kernels' sources, the compiler and the CPU."""
    import llvmlite
    import llvmlite.binding as llvm

    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for part in (llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(), _features()):
        digest.update(f"{part}\n".encode())
    for path in sorted(HERE.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _seal(code: bytes) -> bytes:
    return hashlib.blake2b(_fingerprint() + code, digest_size=DIGEST_SIZE).digest()


def _folders() -> Iterator[Path]:
    """Where object files are kept: beside Python's own compiled files, and for other environments in the user's cache.

    The former lie together whatever made them, as Python's do; the latter by what the code depends on.
    """
    yield HERE / "__pycache__"
    if home := cache_home():
        yield home / "kernels" / _fingerprint().hex()[:16]


def _paths(name: str) -> Iterator[Path]:
    import llvmlite.binding as llvm

    return (folder / f"{name}.{llvm.get_host_cpu_name()}.bin" for folder in _folders())


def _read(name: str) -> bytes | None:
    for path in _paths(name):
        try:
            data = _contents(path)
        except OSError:
            continue
        if data[:DIGEST_SIZE] == _seal(data[DIGEST_SIZE:]):
            return data[DIGEST_SIZE:]
    return None


def _contents(path: Path) -> bytes:
    """What a cache file holds; nothing for one that is no regular file, or too large. A pipe must not hang the run."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        return file.read(MAX_CODE_BYTES) if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_CODE_BYTES else b""


def _store(name: str, code: bytes) -> None:
    """Keep the code in every place that takes it, whole or not at all; a run works without."""
    for path in _paths(name):
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, _seal(code) + code)


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    try:
        with partial.open("xb") as file:
            file.write(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
