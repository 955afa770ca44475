"""What is wrong with an architecture, or with names that none of its rules knows, in the words of an author."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeGuard

from schemegen.errors import plain, shortened
from schemegen.registry import typed

_GROUPS: Final = ("layer", "expert", "projection")
_FIELDS: Final = "{module}, {expert} and {projection}"
_SHOWN: Final = 8
_ADVICE: Final = "it takes another TensorRule, or an architecture of your own in a plugin (docs/how-to/architecture.md)"


def promise_fault(model_types: Sequence[str], functions: Mapping[str, object]) -> str | None:
    """Why nothing can be asked of an architecture: it answers to no model, or has no functions of the config."""
    if not model_types:
        return "model_types is empty; name the model_type of its config.json"
    if isinstance(model_types, tuple | list) and any(_is_blank(word) for word in model_types):
        return "model_types has a blank name; name the model_type of its config.json"
    return _function_fault(functions)


def build_fault(fusions: object, renames: object) -> str | None:
    """Why what engines make of a model's layers is told wrongly: fused layers or renamed prefixes."""
    if not _is_mapping(fusions, _are_words):
        return f"fusions is {typed(fusions)}, and must map a fused layer's name to a tuple of its members' names"
    if not (isinstance(renames, tuple | list) and all(_are_words(pair) and len(pair) == 2 for pair in renames)):
        return f"renames is {typed(renames)}, and must be a tuple of pairs (old prefix, new prefix)"
    return None


def ignores_fault(part_ignores: object, kind: type[Enum]) -> str | None:
    """Why engines cannot be told that a part is kept: no mapping of parts to patterns."""
    if not _is_mapping(part_ignores, _is_word, kind):
        return f"part_ignores is {typed(part_ignores)}, and must map schemegen.{kind.__name__} to a regular expression"
    return None


def rules_fault(rules: object, kind: type) -> str | None:
    """Why an architecture's rules are none."""
    if not isinstance(rules, tuple):
        return f"rules is {typed(rules)}, and must be a tuple of {kind.__name__}s"
    wrong = [rule for rule in rules if not isinstance(rule, kind)]
    return f"rules has {typed(wrong[0])} in it, and must be a tuple of {kind.__name__}s" if wrong else None


def rule_fault(pattern: str, projections: object, experts: object, layout: type) -> str | None:
    """Why a rule says nothing of projections or of a stack of experts."""
    told = f"the TensorRule of {plain(repr(pattern))}"
    if projections is not None and not _is_mapping(projections, _is_word):
        return f"{told}: projections is {typed(projections)}, and must map a stored name to the canonical one"
    if experts is not None and not isinstance(experts, layout):
        return f"{told}: experts is {typed(experts)}, and must be an {layout.__name__} or None"
    return None


def kind_fault(value: object, kind: type[Enum]) -> str | None:
    """Why a word of a closed list is none of it."""
    told = f"{value!r:.80} is no {kind.__name__}; take one of schemegen.{kind.__name__}"
    return None if isinstance(value, kind) else told


def layout_fault(projections: object, template: object, functions: Mapping[str, object]) -> str | None:
    """Why a stack of experts cannot be taken apart: no projections, functions or names of its matrices."""
    if not _are_words(projections) or not projections or any(map(_is_blank, projections)):
        return f"projections of an ExpertLayout is {typed(projections)}, and must be a tuple of names, such as ('up',)"
    if fault := _function_fault(functions):
        return f"an ExpertLayout: {fault}"
    return template_fault(template, projections)


def group_fault(pattern: re.Pattern[str]) -> str | None:
    """Why a pattern's named groups cannot be meant: a name that nothing reads."""
    unknown = next((group for group in pattern.groupindex if group not in _GROUPS), None)
    if unknown is None:
        return None
    near = difflib.get_close_matches(unknown, _GROUPS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_GROUPS)}"
    return f"the pattern {pattern.pattern!r} names a group {unknown}; {hint}"


def template_fault(template: object, projections: Sequence[str]) -> str | None:
    """Why a template makes no module name of an expert, or one name of several matrices."""
    if not isinstance(template, str):
        return f"template of an ExpertLayout is {typed(template)}; give text with {_FIELDS}"
    try:
        experts = {template.format(module="m", expert=expert, projection=projections[0]) for expert in (0, 1)}
        names = {template.format(module="m", expert=0, projection=projection) for projection in projections}
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        told = f"template {shortened(template)} of an ExpertLayout does not fit ({type(error).__name__}: {error})"
        return f"{told}; it may name {_FIELDS}"
    if len(experts) == 1:
        return _one_name(template, "expert")
    return _one_name(template, "projection") if len(names) < len(set(projections)) else None


def _one_name(template: str, field: str) -> str:
    return f"template {shortened(template)} of an ExpertLayout gives every {field} one name; put {{{field}}} into it"


def unknown_projection(architecture: str, name: str, stored: str) -> str:
    """A tensor whose projection its rule does not map."""
    rule = f"the rule of architecture {architecture} that knows it"
    return f"tensor {shortened(name)}: {rule} has no {shortened(stored)} in its projections; add it there"


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


def _function_fault(functions: Mapping[str, object]) -> str | None:
    missing = next((name for name, function in functions.items() if not callable(function)), None)
    return missing and f"{missing} is no function; give one of the config"


def _is_mapping(value: object, fits: Callable[[object], bool], key: type = str) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, key) and fits(told) for name, told in value.items())


def _is_word(value: object) -> bool:
    return isinstance(value, str)


def _are_words(value: object) -> TypeGuard[tuple[str, ...] | list[str]]:
    """Whether a value is several words; text is none, although its letters are."""
    return isinstance(value, tuple | list) and all(map(_is_word, value))


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
