"""The `targets` of every group: which formats come first, and names by which engines tell the groups apart.

`Linear` stands in the first group alone: SGLang reads the scheme of its INT4 experts there. All else goes by name.
SGLang tries the class before the members of a fused layer, so that patterns hit fused names too; compressed-tensors
sorts patterns as text, so that no two groups' may hit one module. Up to 0.17 it raises for whatever is hit and is no
linear layer, so that patterns name linear layers alone: no convolution, no norm, and not the container of a layer's
experts, of which no engine asks. transformers takes the first group with a pattern that has the text `experts` for the
scheme of all experts, so that theirs stands in the first group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from schemegen.architectures.base import Part, Role
from schemegen.engines.modules import Module
from schemegen.engines.patterns import Candidates, entries_for, matches, places
from schemegen.errors import PlanError
from schemegen.planner import Plan

LINEAR: Final = "Linear"
_LAYER: Final = re.compile(r"(?P<head>.+?)\.(?P<number>\d+)\.(?P<tail>.+)")

Targets = dict[str, list[str]]
"""By format, in the order of the groups."""


def formats_in_order(plan: Plan) -> list[str]:
    """The formats that are used: that of most routed experts first, the text's before the MTP block's."""
    counts: Counter[str] = Counter()
    for tensor in plan.tensors:
        if tensor.format is not None and tensor.role is Role.ROUTED_EXPERT:
            # Outweighed by no number of experts elsewhere.
            counts[tensor.format] += tensor.matrices if tensor.part is not Part.TEXT else tensor.matrices << 32
    used = list(plan.formats_used)
    return sorted(used, key=lambda name: (-counts[name], used.index(name)))


def targets_of(modules: Sequence[Module], formats: Sequence[str]) -> Targets:
    """The targets of each format; PlanError where names do not tell the formats' modules apart."""
    found = {name: _named(modules, name, alone=len(formats) == 1) for name in formats[1:]}
    first = formats[0]
    return {first: [LINEAR, *_named(modules, first, first=True, alone=len(formats) == 1)], **found}


def check_targets(modules: Sequence[Module], targets: Mapping[str, Sequence[str]]) -> None:
    """PlanError unless every quantized module is its own format's in every spelling, whatever the order of asking."""
    for module in modules:
        if module.format is None or _is_container(module):
            continue
        for name in module.names:
            named = [format for format, entries in targets.items() if matches(name, entries)]
            # vLLM's and SGLang's class for the head is no Linear.
            if (named or ([] if module.role is Role.LM_HEAD else list(targets)[:1])) != [module.format]:
                raise PlanError(
                    f"module {name} is {module.format}, but the targets say {' and '.join(named) or 'nothing'}; "
                    "engines would misread the checkpoint: choose another policy"
                )


def _named(modules: Sequence[Module], format: str, *, first: bool = False, alone: bool) -> list[str]:
    """The patterns of a format: of the first group's modules only those that `Linear` leaves open."""
    ours = [module for module in modules if module.format == format and not _is_container(module)]
    if first:
        open_roles = {Role.LM_HEAD} if alone else {Role.LM_HEAD, Role.ROUTED_EXPERT}
        ours = [module for module in ours if module.role in open_roles]
    # What is kept may be hit: every engine asks `ignore` first.
    others = [name for module in modules if module.format not in (None, format) for name in module.names]
    return entries_for(ours, others, _candidates(ours), "target")


def _candidates(modules: Sequence[Module]) -> Candidates:
    """By a module: its kind, its kind in the layers of this format, the same for it alone, its place in every layer."""
    words: dict[str, dict[str, None]] = {}
    for module in modules:
        parent, last = _split(module)
        words.setdefault(parent, {})[last] = None

    def kinds(module: Module) -> tuple[str, ...]:
        parent, last = _split(module)
        return tuple(dict.fromkeys(f"{parent}{found}$" for found in (_any_of(words[parent]), last)))

    layers: dict[tuple[str, str], set[int]] = {}
    for module in modules:
        if found := _LAYER.fullmatch(module.name):
            for kind in kinds(module):
                layers.setdefault((found["head"], kind), set()).add(int(found["number"]))

    def candidates(module: Module) -> Iterator[str]:
        for kind in kinds(module):
            yield kind
            if found := _LAYER.fullmatch(module.name):
                yield from _layered(module, kind, sorted(layers[found["head"], kind]))
        tail = rf"\.\d+\.{_any_of(words[_split(module)[0]])}" if module.role is Role.ROUTED_EXPERT else ""
        yield from places(module.place, f"{tail}$")

    return candidates


def _any_of(words: Iterable[str]) -> str:
    found = sorted(words)
    return found[0] if len(found) == 1 else f"({'|'.join(found)})"


def _is_container(module: Module) -> bool:
    return module.role is Role.ROUTED_EXPERT and module.name == module.scope


def _split(module: Module) -> tuple[str, str]:
    """The words that tell a module's kind, in regexes: those before the last, the experts' from their layer on."""
    parent, _, last = module.name.rpartition(".")
    if module.role is Role.ROUTED_EXPERT:
        tail = re.sub(r"^.*\.\d+\.", "", module.scope)
        return re.escape(tail) + r"\.\d+\.", re.escape(last)
    word = parent.rpartition(".")[2]
    return (re.escape(word) + r"\." if word else ""), re.escape(last)


def _layered(module: Module, kind: str, numbers: Sequence[int]) -> Iterator[str]:
    """The kind in some layers: of any part, then of this one in all its spellings."""
    listed = "|".join(map(str, numbers))
    within = rf"\.({listed})\." if len(numbers) > 1 else rf"\.{listed}\."
    within += kind if module.role is Role.ROUTED_EXPERT else f".*{kind}"
    heads = [re.escape(found["head"]) for name in module.names if (found := _LAYER.fullmatch(name))]
    yield heads[0].rpartition(r"\.")[2] + within
    yield (heads[0] if len(heads) == 1 else f"({'|'.join(heads)})") + within
