"""A guest's architecture behind a guard: what its functions raise or answer wrongly is a PluginError that names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from schemegen.architectures.base import Architecture, ExpertLayout, TensorRule
from schemegen.blame import Guard

_P = ParamSpec("_P")
_R = TypeVar("_R")


def guarded(architecture: Architecture, origin: str) -> Architecture:
    """The same architecture, whose functions blame it and the distribution that brings it."""
    guard = Guard(f"architecture {architecture.name}", origin)
    return replace(
        architecture,
        rules=tuple(_rule(guard, rule) for rule in architecture.rules),
        depth=_counting(guard, "depth", architecture.depth),
        experts=_counting(guard, "experts", architecture.experts),
        required=_naming(guard, "required", architecture.required),
    )


def _rule(guard: Guard, rule: TensorRule) -> TensorRule:
    return rule if rule.experts is None else replace(rule, experts=_layout(guard, rule.experts))


def _layout(guard: Guard, layout: ExpertLayout) -> ExpertLayout:
    calls: dict[str, Any] = {
        name: _counting(guard, f"{name} of an ExpertLayout", getattr(layout, name))
        for name in ("rows", "columns", "experts")
    }
    return replace(layout, **calls)


def _counting(guard: Guard, call: str, function: Callable[_P, int]) -> Callable[_P, int]:
    def counted(*args: _P.args, **kwargs: _P.kwargs) -> int:
        number = _called(guard, call, function, *args, **kwargs)
        if type(number) is not int or number < 0:
            raise guard.error(f"{call} returned {number!r:.60}; return a whole number")
        return number

    return counted


def _naming(guard: Guard, call: str, function: Callable[_P, tuple[str, ...]]) -> Callable[_P, tuple[str, ...]]:
    def named(*args: _P.args, **kwargs: _P.kwargs) -> tuple[str, ...]:
        names: Any = _called(guard, call, function, *args, **kwargs)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise guard.error(f"{call} returned {names!r:.60}; return a tuple of tensor names")
        return tuple(names)

    return named


def _called(guard: Guard, call: str, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    with guard.blamed(call):
        return function(*args, **kwargs)
