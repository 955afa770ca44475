"""reference/roles.md: the closed lists of roles and parts, with tensors of the sample as examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import schemegen
from docs.writing.markdown import code, table
from schemegen.architectures.base import PROTECTED_ROLES, Part, Role

#: What a tensor of the role does. This sentence stands nowhere else.
ROLES: Final = {
    Role.ROUTED_EXPERT: "experts of which the router picks a few for each token; nine tenths of a large mixture",
    Role.SHARED_EXPERT: "the expert that every token passes",
    Role.SHARED_EXPERT_GATE: "weighs the shared expert; one row",
    Role.ROUTER: "scores the experts",
    Role.MLP: "dense feed-forward layers: a vision tower's, the first ones of DeepSeek and Kimi",
    Role.ATTENTION: "projections of softmax attention",
    Role.LINEAR_ATTENTION: "the large projections of linear attention",
    Role.MIXER_GATE: "small projections that steer: gates and decays of linear attention, weights of an indexer",
    Role.INDEXER: "projections that choose the tokens that sparse attention looks at",
    Role.STATE: "what is no matrix of a linear layer: decays, biases, short convolutions, sinks",
    Role.NORM: "weights of normalizations",
    Role.EMBEDDING: "tokens, patches or positions to vectors",
    Role.LM_HEAD: "vectors to tokens",
    Role.PROJECTOR: "from a tower's width to the text's",
    Role.FUSION: "joins a token's embedding and the hidden state before an MTP block",
    Role.OTHER: "named oddities of a family; never what nobody understood",
}
PARTS: Final = {
    Part.TEXT: "the language model itself",
    Part.MTP: "the block that predicts further tokens (multi-token prediction), which speculative decoding drafts with",
    Part.VISION: "the vision tower, and its projector",
    Part.AUDIO: "the audio tower, and its projector",
}
#: Names of the role in families that are not built in.
ELSEWHERE: Final = {
    Role.ROUTED_EXPERT: ("mlp.experts.E.gate_proj", "block_sparse_moe.experts.E.w1"),
    Role.SHARED_EXPERT: ("mlp.shared_experts.up_proj",),
    Role.ROUTER: ("mlp.router", "block_sparse_moe.gate"),
    Role.MLP: ("mlp.gate_proj",),
    Role.ATTENTION: ("self_attn.q_a_proj", "self_attn.kv_b_proj"),
    Role.LINEAR_ATTENTION: ("mixer.in_proj",),
    Role.MIXER_GATE: ("indexer.weights_proj",),
    Role.INDEXER: ("self_attn.indexer.wq_b",),
    Role.STATE: ("e_score_correction_bias", "sinks"),
    Role.PROJECTOR: ("mm_projector.*",),
    Role.FUSION: ("eh_proj",),
}
_SAMPLE: Final = "sample:qwen3.6-moe"
_INTRODUCTION: Final = """\
# Roles and parts

A scheme speaks of roles instead of names. The list is closed: an architecture gives every tensor one of these.
*Protected* roles are quantized only by a rule that names them: `role: "*"` does not reach them, nor anything in the
vision and audio towers, nor what is neither a matrix nor a stack of experts. `schemegen inspect` shows a model's.
[Why they are cut so](../explanation/roles.md)."""


def page() -> Iterator[str]:
    """The page."""
    examples = _examples()
    yield from (_INTRODUCTION, "", "## Roles", "")
    head = ("role", "what it does", "protected", f"in `{_SAMPLE}`", "elsewhere")
    yield from table(head, (_row(role, examples.get(role)) for role in Role))
    yield from ("", "## Parts", "", "Layers are counted within a part.", "")
    yield from table(("part", "what it is"), ((f"`{part}`", PARTS[part]) for part in Part))


def _row(role: Role, example: str | None) -> tuple[str, ...]:
    protected = "yes" if role in PROTECTED_ROLES else ""
    here = "" if example is None else f"`{example}`"
    return f"`{role}`", ROLES[role], protected, here, code(ELSEWHERE.get(role, ()))


def _examples() -> dict[Role, str]:
    """The first tensor of each role, without what most names begin with; the text's before other parts'."""
    tensors = sorted(schemegen.plan("kimi-k2-int4", _SAMPLE).tensors, key=lambda tensor: tensor.part is not Part.TEXT)
    found: dict[Role, str] = {}
    for tensor in tensors:
        found.setdefault(tensor.role, tensor.name.removeprefix("model.language_model."))
    return found
