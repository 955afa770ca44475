"""Signatures as they stand in the source, so that a page shows the words that an author wrote."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_WIDTH: Final = 96
#: Decorators that change how a member is used, as readers see it: that a property is kept is nobody's affair.
_TOLD: Final = {name: name for name in ("property", "classmethod", "staticmethod")} | {"cached_property": "property"}
#: For a default that only the source can name.
_OWN: Final = "…"


def signature(function: Callable[..., Any]) -> str:
    """`def name(…) -> type`, one parameter a line where it is long."""
    node = _parsed(function)
    assert isinstance(node, ast.FunctionDef)
    _name_values(node.args, inspect.unwrap(function).__globals__)
    return _signature(node)


def members(found: type) -> Iterator[tuple[str, str, str]]:
    """Public methods and properties of a class's own body: name, signature, docstring."""
    for node in _parsed(found).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, _signature(node), ast.get_docstring(node) or ""


def attributes(found: type) -> Iterator[tuple[str, str, str]]:
    """Annotated attributes of a class's own body: name, type, default (empty: none) as written."""
    for node in _parsed(found).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            yield node.target.id, _text(node.annotation), _default(node.value, vars(sys.modules[found.__module__]))


def _parsed(found: Any) -> ast.FunctionDef | ast.ClassDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(found)))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return node


def _signature(node: ast.FunctionDef) -> str:
    told = [_TOLD[name] for name in map(ast.unparse, node.decorator_list) if name in _TOLD]
    head = "".join(f"@{name}\n" for name in told)
    ends = f") -> {_text(node.returns)}" if node.returns else ")"
    parameters = list(_parameters(node.args))
    line = f"def {node.name}({', '.join(parameters)}{ends}"
    if len(line) <= _WIDTH:
        return head + line
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{head}def {node.name}(\n{lines}{ends}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """Each parameter with its annotation and default, and the marks between them."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for position, (argument, default) in enumerate(zip(plain, defaults, strict=True), 1):
        yield _parameter(argument, default)
        if position == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return _text(argument)
    return f"{_text(argument)}{' = ' if argument.annotation else '='}{_text(default)}"


def _default(value: ast.expr | None, known: Mapping[str, object]) -> str:
    """A default as written; of a dataclass's field() what it gives, of a constant its value."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field" and value.keywords:
        value = _given(value.keywords[0])
    if not isinstance(value, ast.Name):
        return "" if value is None else _text(value)
    meant = known.get(value.id)
    if isinstance(meant, str | int | tuple | Mapping):
        return repr(meant).replace("'", '"')
    return _OWN if value.id.startswith("_") else value.id


def _given(keyword: ast.keyword) -> ast.expr:
    """What field() gives: `default`, or what `default_factory` returns."""
    if keyword.arg != "default_factory":
        return keyword.value
    return keyword.value.body if isinstance(keyword.value, ast.Lambda) else ast.Call(keyword.value, [], [])


def _text(node: ast.AST) -> str:
    return ast.unparse(node).replace("'", '"')


def _name_values(arguments: ast.arguments, known: Mapping[str, object]) -> None:
    """Put values in place of the constants that defaults name."""
    for defaults in (arguments.defaults, arguments.kw_defaults):
        for position, default in enumerate(defaults):
            value = known.get(default.id) if isinstance(default, ast.Name) else None
            if isinstance(value, str | int):
                defaults[position] = ast.Constant(value)
