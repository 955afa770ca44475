"""Why each tensor becomes what it becomes, in words, from the plan alone."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from math import prod
from typing import Any, Final

import yaml

from schemegen.architectures.base import PROTECTED_ROLES, Part
from schemegen.errors import UnknownNameError
from schemegen.formats import storage_of
from schemegen.formats.words import in_short
from schemegen.planner.model import Plan
from schemegen.planner.rules import ResolvedRule
from schemegen.planner.tensors import PlannedTensor
from schemegen.planner.totals import bits_per_weight
from schemegen.rule import Rule, held, is_protected_place
from schemegen.shadows import listed

_NEAREST: Final = 3
_COMPARED: Final = 200
"""How many characters of a pattern are compared with names."""
_NUMBER: Final = re.compile(r"[0-9]+")
_WILD: Final = re.compile(r"[*?\[\]]")
_BRACES: Final = re.compile(r"\{([^{}]*[,-][^{}]*)\}")
_RANGE: Final = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_MOST_NUMBERS: Final = 10_000
"""How many numbers a range in braces may stand for."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A tensor of a plan, what it becomes in a few words, and the rule that decided or why none did."""

    tensor: PlannedTensor
    becomes: str
    reason: str

    @property
    def bits_per_weight(self) -> float | None:
        """Bits stored for each number of the source; None where it holds none."""
        return bits_per_weight(self.tensor.nbytes, prod(self.tensor.source.shape))

    def to_dict(self) -> dict[str, Any]:
        """The tensor in full and what is said of it, as JSON values."""
        return self.tensor.to_dict() | {
            "becomes": self.becomes,
            "reason": self.reason,
            "bits_per_weight": self.bits_per_weight,
        }


def explain(plan: Plan, glob: str) -> tuple[Explanation, ...]:
    """Why each tensor that a shell-style pattern matches becomes what it becomes, in plan order.

    The pattern is held against whole names, of tensors and of what is stored of them; a name matches itself. In it
    {0-2,7} stands for numbers and {gate,up} for words. UnknownNameError tells the nearest names where none matches.
    """
    matches = _compiled(glob).match
    asked = [tensor for tensor in plan.tensors if _is_asked(tensor, glob, matches)]
    if not asked:
        raise _unknown(plan, glob)
    told = _told(plan)
    return tuple(told(tensor) for tensor in asked)


def _compiled(glob: str) -> re.Pattern[str]:
    """The pattern with its braces, and with "…" for the start of a name, as they are printed."""
    choices: list[str] = []

    def mark(found: re.Match[str]) -> str:
        choices.append("|".join(text for item in found[1].split(",") for text in _meant(item)))
        return "\0"

    pattern = fnmatch.translate(_BRACES.sub(mark, glob.replace("\0", "?").replace("…", "*")))
    first, *rest = pattern.split(re.escape("\0"))
    return re.compile(first + "".join(f"(?:{choice}){text}" for choice, text in zip(choices, rest, strict=True)))


def _meant(item: str) -> Iterator[str]:
    """What an item in braces stands for, as regexes: the numbers of a range, or itself."""
    if (found := _RANGE.fullmatch(item)) and int(found[2]) - int(found[1]) < _MOST_NUMBERS:
        yield from map(str, range(int(found[1]), int(found[2]) + 1))
    else:
        yield re.escape(item)


def _is_asked(tensor: PlannedTensor, glob: str, matches: Callable[[str], object]) -> bool:
    names = (tensor.name, *(output.name for output in tensor.outputs))
    return any(name == glob or matches(name) for name in names)


def _told(plan: Plan) -> Callable[[PlannedTensor], Explanation]:
    # A policy given twice has the same rules under the same labels: the first of them decided.
    rules = {(rule.label, rule.format): _in_words(rule) for rule in reversed(plan.rules)}
    depths = _depths(plan.tensors)

    @cache
    def becomes(name: str | None) -> str:
        if name is None:
            return "kept as it is"
        format = plan.scheme.formats[name]
        return f"{name}: {in_short(format)}, {storage_of(format)}"

    def told(tensor: PlannedTensor) -> Explanation:
        reason = rules.get((tensor.rule, tensor.format)) or _unreached(tensor, plan.rules, depths)
        return Explanation(tensor, becomes(tensor.format), reason)

    return told


def _in_words(resolved: ResolvedRule) -> str:
    """A rule as one would write it, and the format where it says `default`: "keep-mtp[0] {part: mtp, use: keep}"."""
    fields = resolved.rule.model_dump(mode="json", exclude_unset=True)
    written = {name: fields[name] for name in sorted(fields, key=lambda name: name == "use")}
    text = yaml.safe_dump(written, default_flow_style=True, sort_keys=False, width=float("inf")).strip()
    result = resolved.format or "keep"
    return f"{resolved.label} {text}" + ("" if resolved.rule.use == result else f" -> {result}")


def _depths(tensors: Iterable[PlannedTensor]) -> Mapping[Part, int]:
    """The number of layers of each part, so far as they are there."""
    found: dict[Part, int] = {}
    for tensor in tensors:
        if tensor.layer is not None:
            found[tensor.part] = max(found.get(tensor.part, 0), tensor.layer + 1)
    return found


def _unreached(tensor: PlannedTensor, rules: Iterable[ResolvedRule], depths: Mapping[Part, int]) -> str:
    """Why no rule decided."""
    if not tensor.is_matrix:
        return "not a matrix: a format takes a module's 2-D weight or a stack of experts"
    naming = [rule for rule in rules if rule.format is not None and tensor.role in (rule.rule.roles or ())]
    if naming:
        return f"no rule reaches it: {'; '.join(_missed(rule, tensor, depths.get(tensor.part, 0)) for rule in naming)}"
    if not is_protected_place(tensor.role, tensor.part):
        return "no rule reaches it"
    whose = "" if tensor.role in PROTECTED_ROLES else f" as part {tensor.part}"
    return f"protected{whose}: only a rule that names role {tensor.role} reaches it"


def _missed(resolved: ResolvedRule, tensor: PlannedTensor, depth: int) -> str:
    """Why a rule that names the tensor's role does not select it."""
    rule = resolved.rule
    if tensor.part not in rule.parts:
        counted = "" if rule.part is not None else ", in which its layers count"
        return f"{resolved.label} names {tensor.role} of part {listed(rule.parts)}{counted}"
    # Where all seem to fit, the config promises other layers than are there, from whose end the rule counts.
    fields = _unfit(rule, tensor, depth) or ["layer"]
    return f"{resolved.label} names {tensor.role}, but not with this {' and '.join(fields)}"


def _unfit(rule: Rule, tensor: PlannedTensor, depth: int) -> list[str]:
    """What a rule asks for beside role and part and the tensor has not."""
    fits = {
        "layer": rule.fits_layer(tensor.layer, depth),
        "projection": rule.fits_projection(tensor.projection, held(tensor.projection, tensor.stacked)),
        "name": rule.fits_name(tensor.name),
    }
    return [field for field, fit in fits.items() if not fit]


def _unknown(plan: Plan, glob: str) -> UnknownNameError:
    names = [tensor.name for tensor in plan.tensors]
    note = f"these are the nearest of {len(names):,} names, in which * stands for anything, as in '*.q_proj.weight'"
    return UnknownNameError("tensor", glob, _nearest(glob, names), [note])


def _nearest(glob: str, names: Iterable[str]) -> list[str]:
    """The names that hold most of the pattern's text, in order; of those that differ by numbers alone one."""
    wanted = _NUMBER.findall(glob)
    kinds: dict[str, str] = {}
    for name in names:
        kind = _NUMBER.sub("0", name)
        if kind not in kinds or _NUMBER.findall(name) == wanted:
            kinds[kind] = name
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(_NUMBER.sub("0", _WILD.sub("", glob[:_COMPARED])))

    def likeness(kind: str) -> tuple[int, float]:
        matcher.set_seq1(kind)
        return sum(block.size for block in matcher.get_matching_blocks()), matcher.ratio()

    return [kinds[kind] for kind in sorted(kinds, key=likeness, reverse=True)[:_NEAREST]]
