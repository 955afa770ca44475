"""The modules that a plan quantizes, said in few words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from schemegen.engines import first_expert
from schemegen.planner import Plan

_FIRST: Final = ("gate_proj", "up_proj", "down_proj")
_NUMBER: Final = re.compile(r"\.\d+(?=\.|$)")
_LAYERS: Final = re.compile(r"^.*?\.?layers\.\d+\.")


def quantized_words(plan: Plan) -> Mapping[str, Sequence[str]]:
    """The last words of the quantized modules, by the parent they hang on: `*` for layers and what stands before
    them, and for experts."""
    words: dict[str, dict[str, None]] = {}
    for tensor in plan.tensors:
        if tensor.format is not None:
            for output in tensor.outputs[:: len(tensor.pieces)]:
                module = first_expert(output.name.rpartition(".")[0])
                parent, _, last = _LAYERS.sub("*.", module).rpartition(".")
                words.setdefault(_NUMBER.sub(".*", parent), {})[last] = None
    return {parent: _ordered(list(found)) for parent, found in words.items()}


def patterns(plan: Plan) -> list[str]:
    """One pattern a parent, its last words in braces."""
    return [_joined(parent, words) for parent, words in quantized_words(plan).items()]


def _ordered(words: list[str]) -> list[str]:
    known = [word for word in _FIRST if word in words]
    return known + [word for word in words if word not in known]


def _joined(parent: str, words: Sequence[str]) -> str:
    last = words[0] if len(words) == 1 else "{" + ",".join(words) + "}"
    return f"{parent}.{last}" if parent else last
