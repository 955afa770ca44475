"""Signatures are written as an author wrote them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from docs.writing.signatures import attributes, members, signature

MOST = 3
FUSED: dict[str, tuple[str, ...]] = {"qkv": ("q", "k", "v")}


def _nothing() -> None: ...


def short(a: int, /, b: str = "x", *rest: str, c: "bool" = False, **more: Any) -> str | None:  # noqa: UP037
    """Short."""
    return None


def only(*, most: int = MOST, plain=MOST):  # type: ignore[no-untyped-def]
    """Keywords alone, with a constant's name as default."""


def long(first_of_several: dict[str, int], second_of_several: list[tuple[str, ...]], *, third: float = 1.0) -> None:
    """Too long for a line."""


@dataclass
class Thing:
    """A thing."""

    name: str
    parts: tuple[str, ...] = field(default=())
    more: dict[str, int] = field(default_factory=dict)
    most: int = MOST
    fused: dict[str, tuple[str, ...]] = field(default_factory=lambda: FUSED)
    act: Callable[[], None] = _nothing
    _own: int = 0

    @property
    def size(self) -> int:
        """How large."""
        return 0

    @cached_property
    def weight(self) -> int:
        """How heavy."""
        return 0

    def _hidden(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (short, 'def short(a: int, /, b: str = "x", *rest: str, c: "bool" = False, **more: Any) -> str | None'),
        (only, "def only(*, most: int = 3, plain=3)"),
        (
            long,
            "def long(\n    first_of_several: dict[str, int],\n    second_of_several: list[tuple[str, ...]],\n    *,\n"
            "    third: float = 1.0,\n) -> None",
        ),
    ],
)
def test_signatures(function: Callable[..., Any], text: str) -> None:
    assert signature(function) == text
    compile(f"{text}: ...", "signature", "exec")


def test_members_and_attributes_are_the_public_ones() -> None:
    assert inspect.isclass(Thing)
    assert list(members(Thing)) == [
        ("size", "@property\ndef size(self) -> int", "How large."),
        ("weight", "@property\ndef weight(self) -> int", "How heavy."),
    ]
    assert list(attributes(Thing)) == [
        ("name", "str", ""),
        ("parts", "tuple[str, ...]", "()"),
        ("more", "dict[str, int]", "dict()"),
        ("most", "int", "3"),
        ("fused", "dict[str, tuple[str, ...]]", '{"qkv": ("q", "k", "v")}'),
        ("act", "Callable[[], None]", "…"),
    ]
