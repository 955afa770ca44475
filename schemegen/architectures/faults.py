"""What is wrong with an architecture, or with names that none of its rules knows, in the words of an author."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from schemegen.errors import shortened

_GROUPS: Final = ("layer", "expert", "projection")
_SHOWN: Final = 8
_ADVICE: Final = "it takes another TensorRule, or an architecture of your own in a plugin (docs/how-to/architecture.md)"


def promise_fault(model_types: Sequence[str], functions: Mapping[str, object]) -> str | None:
    """Why nothing can be asked of an architecture: it answers to no model, or has no functions of the config."""
    if not model_types:
        return "model_types is empty; name the model_type of its config.json"
    missing = next((name for name, function in functions.items() if not callable(function)), None)
    return missing and f"{missing} is no function; give one of the config"


def group_fault(pattern: re.Pattern[str]) -> str | None:
    """Why a pattern's named groups cannot be meant: a name that nothing reads."""
    unknown = next((group for group in pattern.groupindex if group not in _GROUPS), None)
    if unknown is None:
        return None
    near = difflib.get_close_matches(unknown, _GROUPS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_GROUPS)}"
    return f"names a group {unknown}; {hint}"


def template_fault(template: str) -> str | None:
    """Why a template makes no module name of an expert."""
    try:
        template.format(module="m", expert=0, projection="p")
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        told = f"template {shortened(template)} of an ExpertLayout does not fit ({type(error).__name__}: {error})"
        return f"{told}; it may name {{module}}, {{expert}} and {{projection}}"
    return None


def unknown_names(architecture: str, kinds: Sequence[Sequence[str]]) -> str:
    """Names that no rule knows, by kind: one kind is told in one line, of several each has its own."""
    if len(kinds) == 1:
        (names,) = kinds
        return f"tensor {shortened(names[0])}{_and_more(names)} is unknown to architecture {architecture}; {_ADVICE}"
    lines = [f"  {shortened(names[0])}{_and_more(names)}" for names in kinds[:_SHOWN]]
    if rest := kinds[_SHOWN:]:
        lines.append(f"  and {len(rest)} more kinds")
    head = f"{len(kinds)} kinds of tensor are unknown to architecture {architecture}:"
    return "\n".join([head, *lines, _ADVICE])


def _and_more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more of its kind)" if len(names) > 1 else ""
