"""Modules that the config has quantized, and that are stored as they were: an `ignore` that lost its entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schemegen.architectures.base import Role
from schemegen.described.fates import Matrix
from schemegen.described.finder import Finder
from schemegen.described.naming import shown
from schemegen.engines import LINEAR, first_expert, matches

#: Whatever hits them, engines build no linear layer of them.
_NO_LINEAR: Final = frozenset({Role.EMBEDDING, Role.NORM, Role.STATE})
_NAMED: Final = 3


def unquantized(matrices: Sequence[Matrix], ignore: Sequence[str], finder: Finder) -> Iterator[str]:
    """A remark for each group of the config that takes what is stored unquantized."""
    if LINEAR in ignore:
        return
    taken: dict[str, dict[str, Role]] = {}
    for module, role in _kept(matrices).items():
        names = finder.names_of(module)
        group = None if any(matches(name, ignore) for name in names) else finder.taker_of(names)
        if group is not None:
            taken.setdefault(group.name, {})[module] = role
    for name, modules in taken.items():
        count = "1 module" if len(modules) == 1 else f"{len(modules):,} modules"
        yield (
            f"stored unquantized although the config's {shown(name)} takes it ({count}, such as {_examples(modules)}); "
            "engines would look for quantized weights where they build a linear layer of it"
        )


def _kept(matrices: Sequence[Matrix]) -> dict[str, Role]:
    """Linear layers that are stored as they are, by the name that engines ask for, with their roles."""
    found: dict[str, Role] = {}
    for matrix in matrices:
        if matrix.use is None and matrix.info.role not in _NO_LINEAR:
            found.update(dict.fromkeys(_asked(matrix), matrix.info.role))
    return found


def _asked(matrix: Matrix) -> list[str]:
    """The module, or of a stack of experts the first one's."""
    info = matrix.info
    if info.experts is None:
        return [first_expert(info.module)]
    return [name for _, _, name in info.experts.module_names(info.module, 1)]


def _examples(modules: dict[str, Role]) -> str:
    """The first module of each of a few roles."""
    first = {role: module for module, role in reversed(modules.items())}
    found = [module for module in modules if module in first.values()]
    return ", ".join(shown(module) for module in found[:_NAMED])
