"""The modules that a plan quantizes, said in few words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemegen.engines import first_expert
from schemegen.planner import Plan

_FIRST: Final = ("gate_proj", "up_proj", "down_proj")
_NUMBER: Final = re.compile(r"\.\d+(?=\.|$)")
_LAYERS: Final = re.compile(r"^.*?\.?layers\.\d+\.")


class Quantized(NamedTuple):
    """The quantized modules, each once, the first expert for all of its layer; and their last words by parent.

    A parent has `*` for layers and what stands before them, and for experts.
    """

    modules: tuple[str, ...]
    words: Mapping[str, Sequence[str]]

    @property
    def patterns(self) -> list[str]:
        """One pattern a parent, its last words in braces."""
        return [_joined(parent, words) for parent, words in self.words.items()]


def quantized_of(plan: Plan) -> Quantized:
    """What a plan quantizes; it goes through all stored names."""
    found = (first_expert(name) for tensor in plan.tensors if tensor.format is not None for name in tensor.modules)
    modules = tuple(dict.fromkeys(found))
    words: dict[str, dict[str, None]] = {}
    for module in modules:
        parent, _, last = _LAYERS.sub("*.", module).rpartition(".")
        words.setdefault(_NUMBER.sub(".*", parent), {})[last] = None
    return Quantized(modules, {parent: _ordered(list(found)) for parent, found in words.items()})


def _ordered(words: list[str]) -> list[str]:
    known = [word for word in _FIRST if word in words]
    return known + [word for word in words if word not in known]


def _joined(parent: str, words: Sequence[str]) -> str:
    last = words[0] if len(words) == 1 else "{" + ",".join(words) + "}"
    return f"{parent}.{last}" if parent else last
