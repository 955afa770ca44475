"""reference/roles.md: the closed lists of roles and parts, with tensors of the sample as examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import schemegen
from docs.writing.markdown import table
from schemegen.architectures.base import PROTECTED_ROLES, Part, Role

ROLES: Final = {
    Role.ROUTED_EXPERT: "an expert's matrices that the router chooses by token",
    Role.SHARED_EXPERT: "the expert that every token passes",
    Role.SHARED_EXPERT_GATE: "what weighs the shared expert",
    Role.ROUTER: "what chooses experts",
    Role.MLP: "a dense feed-forward block",
    Role.ATTENTION: "projections of softmax attention",
    Role.LINEAR_ATTENTION: "the large projections of linear attention",
    Role.MIXER_GATE: "the small projections of linear attention that make gates and decays",
    Role.INDEXER: "what chooses the tokens that sparse attention looks at",
    Role.STATE: "what is no matrix of a linear layer: decays, biases, short convolutions, sinks",
    Role.NORM: "weights of a normalization",
    Role.EMBEDDING: "tokens, positions or patches to vectors",
    Role.LM_HEAD: "vectors to tokens",
    Role.PROJECTOR: "from a tower's width to the text's",
    Role.FUSION: "what joins a token's embedding and the hidden state before an MTP block",
    Role.OTHER: "named oddities",
}
PARTS: Final = {
    Part.TEXT: "the language model itself",
    Part.MTP: "the block that predicts tokens ahead (multi-token prediction), with layers counted by itself",
    Part.VISION: "the vision tower",
    Part.AUDIO: "the audio tower",
}
_SAMPLE: Final = "sample:qwen3.6-moe"
_INTRODUCTION: Final = """\
# Roles and parts

A scheme speaks of roles instead of names. The list is closed: an architecture gives every tensor one of these.
*Protected* roles are quantized only by a rule that names them: `role: "*"` does not reach them, nor anything in the
vision and audio towers, nor what is neither a matrix nor a stack of experts. `schemegen inspect` shows a model's."""


def page() -> Iterator[str]:
    """The page."""
    examples = _examples()
    yield from (_INTRODUCTION, "", "## Roles", "")
    head = ("role", "what it does", "protected", f"in `{_SAMPLE}`")
    yield from table(head, (_row(role, examples.get(role)) for role in Role))
    yield from ("", "## Parts", "")
    yield from table(("part", "what it is"), ((f"`{part}`", PARTS[part]) for part in Part))


def _row(role: Role, example: str | None) -> tuple[str, str, str, str]:
    protected = "yes" if role in PROTECTED_ROLES else ""
    return f"`{role}`", ROLES[role], protected, "" if example is None else f"`{example}`"


def _examples() -> dict[Role, str]:
    """The first tensor of each role, without what most names begin with; the text's before other parts'."""
    tensors = sorted(schemegen.plan("kimi-k2-int4", _SAMPLE).tensors, key=lambda tensor: tensor.part is not Part.TEXT)
    found: dict[Role, str] = {}
    for tensor in tensors:
        found.setdefault(tensor.role, tensor.name.removeprefix("model.language_model."))
    return found
