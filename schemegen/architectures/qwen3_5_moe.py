"""Qwen3.5 and Qwen3.6 mixture-of-experts models: hybrid attention, a vision tower and an MTP block.

Names as in the published Qwen3.6-35B-A3B and Qwen3.5-35B-A3B indexes; experts fused 3-D or one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from schemegen.architectures.base import (
    FUSIONS,
    Architecture,
    ExpertLayout,
    Part,
    Role,
    TensorRule,
)
from schemegen.architectures.config import Config, config_int

_TEXT: Final = r"model\.language_model\.layers\.(?P<layer>\d+)\."
_MTP: Final = r"mtp\.layers\.(?P<layer>\d+)\."
_VISION: Final = r"model\.visual\.blocks\.(?P<layer>\d+)\."
_GATE_UP_DOWN: Final = r"(?P<projection>gate|up|down)_proj\.weight"


def _text(key: str) -> Callable[[Config], int]:
    return lambda config: config_int(config, "text_config", key)


_GATE_UP: Final = ExpertLayout(
    ("gate", "up"), rows=_text("moe_intermediate_size"), columns=_text("hidden_size"), experts=_text("num_experts")
)
_DOWN: Final = ExpertLayout(
    ("down",), rows=_text("hidden_size"), columns=_text("moe_intermediate_size"), experts=_text("num_experts")
)


def _block(prefix: str, part: Part) -> tuple[TensorRule, ...]:
    """A decoder layer with full attention and a mixture of experts: the trunk's and the MTP block's alike."""
    return (
        TensorRule(prefix + r"mlp\.experts\.gate_up_proj", Role.ROUTED_EXPERT, part, experts=_GATE_UP),
        TensorRule(prefix + r"mlp\.experts\.down_proj", Role.ROUTED_EXPERT, part, experts=_DOWN),
        TensorRule(prefix + r"mlp\.experts\.(?P<expert>\d+)\." + _GATE_UP_DOWN, Role.ROUTED_EXPERT, part),
        TensorRule(prefix + r"mlp\.gate\.weight", Role.ROUTER, part, ignore=r"mlp\.gate$"),
        TensorRule(
            prefix + r"mlp\.shared_expert\." + _GATE_UP_DOWN, Role.SHARED_EXPERT, part, ignore=r"shared_expert\..*"
        ),
        TensorRule(
            prefix + r"mlp\.shared_expert_gate\.weight", Role.SHARED_EXPERT_GATE, part, ignore=r"shared_expert_gate$"
        ),
        TensorRule(
            prefix + r"self_attn\.(?P<projection>[qkvo])_proj\.weight", Role.ATTENTION, part, ignore=r"self_attn\..*"
        ),
        TensorRule(prefix + r"self_attn\.[qk]_norm\.weight", Role.NORM, part),
        TensorRule(prefix + r"(input|post_attention)_layernorm\.weight", Role.NORM, part),
    )


_LINEAR_ATTENTION: Final = (
    TensorRule(
        _TEXT + r"linear_attn\.in_proj_(?P<projection>qkv|z)\.weight",
        Role.LINEAR_ATTENTION,
        ignore=r"linear_attn\..*",
    ),
    TensorRule(
        _TEXT + r"linear_attn\.(?P<projection>out)_proj\.weight", Role.LINEAR_ATTENTION, ignore=r"linear_attn\..*"
    ),
    TensorRule(
        _TEXT + r"linear_attn\.in_proj_(?P<projection>a|b)\.weight",
        Role.MIXER_GATE,
        ignore=r"linear_attn\.in_proj_(a|b|ba)$",
    ),
    TensorRule(_TEXT + r"linear_attn\.(conv1d\.weight|A_log|dt_bias)", Role.STATE),
    TensorRule(_TEXT + r"linear_attn\.norm\.weight", Role.NORM),
)

_TOP: Final = (
    TensorRule(r"model\.language_model\.embed_tokens\.weight", Role.EMBEDDING),
    TensorRule(r"model\.language_model\.norm\.weight", Role.NORM),
    TensorRule(r"lm_head\.weight", Role.LM_HEAD, ignore=r"lm_head$"),
    TensorRule(r"mtp\.fc\.weight", Role.FUSION, Part.MTP, ignore=r"mtp\.fc$"),
    TensorRule(r"mtp\.(norm|pre_fc_norm_embedding|pre_fc_norm_hidden)\.weight", Role.NORM, Part.MTP),
)

_VISUAL: Final = r"visual\..*"
_VISION_TOWER: Final = (
    TensorRule(r"model\.visual\.(patch_embed\.proj\.(weight|bias)|pos_embed\.weight)", Role.EMBEDDING, Part.VISION),
    TensorRule(_VISION + r"norm[12]\.(weight|bias)", Role.NORM, Part.VISION),
    TensorRule(_VISION + r"attn\.(?P<projection>qkv|proj)\.(weight|bias)", Role.ATTENTION, Part.VISION, ignore=_VISUAL),
    TensorRule(_VISION + r"mlp\.linear_(?P<projection>fc[12])\.(weight|bias)", Role.MLP, Part.VISION, ignore=_VISUAL),
    TensorRule(
        r"model\.visual\.merger\.(norm|linear_fc[12])\.(weight|bias)", Role.PROJECTOR, Part.VISION, ignore=_VISUAL
    ),
)


def _depth(config: Config, part: Part) -> int:
    paths = {
        Part.TEXT: ("text_config", "num_hidden_layers"),
        Part.MTP: ("text_config", "mtp_num_hidden_layers"),
        Part.VISION: ("vision_config", "depth"),
    }
    if part not in paths:
        return 0
    # A model without a vision tower or an MTP block may leave its depth out.
    return config_int(config, *paths[part], minimum=0, default=None if part is Part.TEXT else 0)


def _required(config: Config) -> tuple[str, ...]:
    """Embedding, final norm, and the head unless it is the embedding again."""
    text = config.get("text_config")
    tied = [holder.get("tie_word_embeddings") for holder in (config, text) if isinstance(holder, Mapping)]
    head = () if True in tied else ("lm_head.weight",)
    return ("model.language_model.embed_tokens.weight", "model.language_model.norm.weight", *head)


QWEN3_5_MOE: Final = Architecture(
    name="qwen3_5_moe",
    summary="Qwen3.5 and Qwen3.6 MoE: hybrid attention, vision tower, MTP block",
    model_types=("qwen3_5_moe",),
    rules=(*_block(_TEXT, Part.TEXT), *_LINEAR_ATTENTION, *_block(_MTP, Part.MTP), *_TOP, *_VISION_TOWER),
    depth=_depth,
    experts=_text("num_experts"),
    part_ignores={Part.VISION: _VISUAL, Part.MTP: r"mtp\..*"},
    reference="https://huggingface.co/Qwen/Qwen3.6-35B-A3B",
    required=_required,
    reasoning_parser="qwen3",
    fusions=FUSIONS | {"in_proj_qkvz": ("in_proj_qkv", "in_proj_z"), "in_proj_ba": ("in_proj_b", "in_proj_a")},
    renames=(
        ("model.language_model.", "language_model.model."),
        ("model.visual.", "visual."),
        ("lm_head", "language_model.lm_head"),
    ),
)
