"""Matrices that only their names tell from others of their kind: rules that name them, in front of all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemegen.architectures.base import Role
from schemegen.described.cover import Uses, cover
from schemegen.described.fates import Kind, Matrix, usual
from schemegen.described.naming import pattern_of
from schemegen.rule import Rule


@dataclass(frozen=True, slots=True)
class Exceptions:
    """Rules by name, and what becomes of the kinds that they leave."""

    rules: tuple[Rule, ...]
    uses: Uses


def exceptions_of(matrices: Sequence[Matrix]) -> Exceptions:
    """The fewest names that leave all matrices of a kind with one fate, which rules without names can tell."""
    uses = usual(matrices)
    untold = {role for role in {kind.role for kind in uses} if not _is_told(role, uses)}
    left = {kind: None if kind.role in untold else use for kind, use in uses.items()}
    named = [matrix for matrix in matrices if matrix.use != left[Kind.of(matrix.info)]]
    return Exceptions(tuple(_rules(named)), left)


def by_name(matrices: Sequence[Matrix]) -> list[Rule]:
    """Rules that name every quantized matrix."""
    return list(_rules([matrix for matrix in matrices if matrix.use is not None]))


def _is_told(role: Role, uses: Uses) -> bool:
    return cover({kind: use for kind, use in uses.items() if kind.role is role}) is not None


def _rules(matrices: Sequence[Matrix]) -> Iterator[Rule]:
    found: dict[tuple[str | None, Role], list[str]] = {}
    for matrix in matrices:
        found.setdefault((matrix.use, matrix.info.role), []).append(matrix.header.name)
    for (use, role), names in found.items():
        yield Rule.model_validate({"role": role, "name": pattern_of(names), "use": use or "keep"})
