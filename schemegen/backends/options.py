"""The options that a scheme gives its method, held to the model of the backend that computes it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import BaseModel

_MOST_SHOWN: Final = 200


def option_faults(model: type[BaseModel] | None, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Each fault as "field: message"; without a model every option is one."""
    if model is None:
        return tuple(f"{name}: this method takes no options; take it out" for name in options)
    return tuple(_unknown(model.model_fields, options) or _invalid(model, options))


def _unknown(known: Collection[str], options: Mapping[str, Any]) -> list[str]:
    """Names that the model does not have: also where it was written to ignore them."""
    return [f"{name}: unknown option; {_hint(name, known)}" for name in options if name not in known]


def _hint(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _invalid(model: type[BaseModel], options: Mapping[str, Any]) -> Iterator[str]:
    from pydantic import ValidationError

    try:
        model.model_validate(dict(options))
    except ValidationError as error:
        for fault in error.errors():
            message = str(fault["msg"]).removeprefix("Value error, ")[:_MOST_SHOWN]
            yield f"{'.'.join(map(str, fault['loc'])) or 'options'}: {message[:1].lower()}{message[1:]}"
