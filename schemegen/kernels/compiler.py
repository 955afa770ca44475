"""From a plain function to an object file. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import config


@dataclass(frozen=True, slots=True)
class Source:
    """A function that numba can compile without its runtime (no arrays, no exceptions), and its numba signature."""

    function: Callable[..., int]
    signature: Any


def emit(source: Source, symbol: str, machine: Any) -> bytes:
    """Object code for `machine` that defines `symbol` and needs no other."""
    with _unoptimized():
        callback = numba.cfunc(source.signature, forceinline=True, error_model="numpy")(source.function)
    module = llvm.parse_assembly(callback.inspect_llvm())
    _hide_all_but(module, callback.native_name, symbol)
    _optimize(module, machine)
    _check_alone(module)
    return bytes(machine.emit_object(module))


@contextmanager
def _unoptimized() -> Iterator[None]:
    """Have numba leave the code as it is: its passes unroll loops into what the vectorizer no longer recognizes."""
    level = config.OPT
    config.OPT = type(level)(0)
    try:
        yield
    finally:
        config.OPT = level


def _hide_all_but(module: Any, name: str, symbol: str) -> None:
    for definition in (*module.functions, *module.global_variables):
        if not definition.is_declaration:
            definition.linkage = "internal"
    kernel = module.get_function(name)
    kernel.linkage = "external"
    kernel.name = symbol


def _optimize(module: Any, machine: Any) -> None:
    """LLVM's -O3 with vectors made of straight-line code, which numba leaves out, and not of loops: half the size."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.slp_vectorization = True
    tuning.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def _check_alone(module: Any) -> None:
    """Refuse what would end the process when it is linked without numba."""
    foreign = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if foreign:
        raise TypeError(f"the kernel calls {', '.join(foreign)}: write it without arrays of its own and exceptions")
