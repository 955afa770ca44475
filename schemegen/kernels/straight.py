"""Loops over runs of items as straight-line code, of which LLVM makes vectors whatever an item takes.

LLVM unrolls a loop only while its body is short, and makes no vectors where a store might change what is loaded next:
a block is therefore written out by doubling, and its loads and stores are declared apart. Source and target are
different memory. Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.extending import intrinsic

from schemegen.kernels.bits import inline

Function = Callable[..., Any]


@intrinsic
def peek(typing: Any, pointer: Any, index: Any) -> Any:
    """`pointer[index]`, which no `poke` changes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(builder.gep(arguments[0], [arguments[1]]))
        loaded.set_metadata("alias.scope", _scope(builder.module))
        return loaded

    return pointer.dtype(pointer, index), generate


@intrinsic
def poke(typing: Any, pointer: Any, index: Any, value: Any) -> Any:
    """`pointer[index] = value`, where nothing is peeked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        builder.store(arguments[2], place).set_metadata("noalias", _scope(builder.module))
        return context.get_dummy_value()

    return numba.types.void(pointer, index, pointer.dtype), generate


def _scope(module: Any) -> Any:
    """LLVM's list of the one scope of what is only read."""
    domain = module.add_metadata(["schemegen"])
    return module.add_metadata([module.add_metadata(["peeked", domain])])


def filler(item: Function, block: int) -> Function:
    """A function (source, target, start, stop, factor): target[i] = item(source[i], factor). `block` is 2**n."""

    @inline
    def fill_one(source: Any, target: Any, i: int, factor: Any) -> Any:
        poke(target, i, item(peek(source, i), factor))
        return 0

    fill_block = _repeated(fill_one, block)

    @inline
    def fill(source: Any, target: Any, start: int, stop: int, factor: Any) -> None:
        whole = start + (stop - start) // block * block
        for first in range(start, whole, block):
            fill_block(source, target, first, factor)
        for i in range(whole, stop):
            fill_one(source, target, i, factor)

    return fill


def comparer(differs: Function, block: int) -> Function:
    """A function (source, target, start, stop, factor) → the first i with differs(source[i], target[i], factor), or -1.

    `differs` gives an integer, 0 where all is well.
    """

    @inline
    def compare_one(source: Any, target: Any, i: int, factor: Any) -> Any:
        return differs(peek(source, i), peek(target, i), factor)

    compare_block = _repeated(compare_one, block)

    @inline
    def compare(source: Any, target: Any, start: int, stop: int, factor: Any) -> int:
        clean, whole = start, start + (stop - start) // block * block
        while clean < whole and compare_block(source, target, clean, factor) == 0:
            clean += block
        for i in range(clean, stop):
            if compare_one(source, target, i, factor) != 0:
                return i
        return -1

    return compare


def _repeated(step: Function, count: int) -> Function:
    """`step` at `count` places from one on, written out; what the steps return is or-ed."""
    if count == 1:
        return step
    half, size = _repeated(step, count // 2), count // 2

    @inline
    def both(source: Any, target: Any, start: int, factor: Any) -> Any:
        return half(source, target, start, factor) | half(source, target, start + size, factor)

    return both
