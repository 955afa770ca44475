"""Names, shapes and config.json of a qwen3_5_moe (Qwen3.5 and 3.6) checkpoint, written down apart from the package."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

ITEM_SIZES = {"I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2}
CONFIG_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
LINEAR_HEAD = 128
PATCH = (3, 2, 16, 16)


@dataclass(frozen=True, slots=True)
class Dims:
    """Widths and counts of one checkpoint; `full_every` k makes every k-th text layer full attention."""

    hidden: int = 256
    intermediate: int = 128
    experts: int = 8
    layers: int = 4
    mtp: int = 1
    full_every: int = 4
    vocab: int = 512
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    key_heads: int = 1
    value_heads: int = 2
    vision_depth: int = 2
    vision_hidden: int = 64
    vision_intermediate: int = 144
    positions: int = 64
    fused_trunk: bool = True
    fused_mtp: bool = True
    dtype: str = "BF16"
    state_dtype: str = ""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor; `pieces` are the (key, elements) its values are generated from, in order."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[tuple[str, int], ...] = ()

    @property
    def nbytes(self) -> int:
        """Stored bytes."""
        return math.prod(self.shape) * ITEM_SIZES[self.dtype]


def tensors(d: Dims) -> Iterator[Tensor]:
    """Every tensor of the checkpoint, in model order."""
    prefix = "model.language_model"
    yield Tensor(f"{prefix}.embed_tokens.weight", (d.vocab, d.hidden), d.dtype)
    for layer in range(d.layers):
        yield from _block(d, f"{prefix}.layers.{layer}", is_full(d, layer), d.fused_trunk)
    yield Tensor(f"{prefix}.norm.weight", (d.hidden,), d.dtype)
    yield Tensor("lm_head.weight", (d.vocab, d.hidden), d.dtype)
    yield from _vision(d)
    if d.mtp:
        yield from _mtp(d)


def is_full(d: Dims, layer: int) -> bool:
    """True where a text layer has full attention, False where it has linear attention."""
    return layer % d.full_every == d.full_every - 1


def _mtp(d: Dims) -> Iterator[Tensor]:
    yield Tensor("mtp.fc.weight", (d.hidden, 2 * d.hidden), d.dtype)
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield Tensor(f"mtp.{name}.weight", (d.hidden,), d.dtype)
    yield from _block(d, "mtp.layers.0", True, d.fused_mtp)


def _block(d: Dims, prefix: str, full: bool, fused: bool) -> Iterator[Tensor]:
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield Tensor(f"{prefix}.{name}.weight", (d.hidden,), d.dtype)
    yield from _attention(d, f"{prefix}.self_attn") if full else _linear_attention(d, f"{prefix}.linear_attn")
    yield Tensor(f"{prefix}.mlp.gate.weight", (d.experts, d.hidden), d.dtype)
    experts = f"{prefix}.mlp.experts"
    yield from _fused_experts(d, experts) if fused else _single_experts(d, experts)
    shared = f"{prefix}.mlp.shared_expert"
    for projection, shape in _projections(d):
        yield Tensor(f"{shared}.{projection}_proj.weight", shape, d.dtype)
    yield Tensor(f"{shared}_gate.weight", (1, d.hidden), d.dtype)


def _projections(d: Dims) -> list[tuple[str, tuple[int, int]]]:
    wide, tall = (d.intermediate, d.hidden), (d.hidden, d.intermediate)
    return [("gate", wide), ("up", wide), ("down", tall)]


def _fused_experts(d: Dims, prefix: str) -> Iterator[Tensor]:
    count = d.hidden * d.intermediate
    pairs = [(f"{prefix}.{e}.{p}", count) for e in range(d.experts) for p in ("gate", "up")]
    yield Tensor(f"{prefix}.gate_up_proj", (d.experts, 2 * d.intermediate, d.hidden), d.dtype, tuple(pairs))
    downs = [(f"{prefix}.{e}.down", count) for e in range(d.experts)]
    yield Tensor(f"{prefix}.down_proj", (d.experts, d.hidden, d.intermediate), d.dtype, tuple(downs))


def _single_experts(d: Dims, prefix: str) -> Iterator[Tensor]:
    count = d.hidden * d.intermediate
    for e in range(d.experts):
        for projection, shape in _projections(d):
            pieces = ((f"{prefix}.{e}.{projection}", count),)
            yield Tensor(f"{prefix}.{e}.{projection}_proj.weight", shape, d.dtype, pieces)


def _attention(d: Dims, prefix: str) -> Iterator[Tensor]:
    """Full attention: q holds per head a query and an output gate."""
    q, kv = d.heads * d.head, d.kv_heads * d.head
    shapes = {"q": (2 * q, d.hidden), "k": (kv, d.hidden), "v": (kv, d.hidden), "o": (d.hidden, q)}
    for projection, shape in shapes.items():
        yield Tensor(f"{prefix}.{projection}_proj.weight", shape, d.dtype)
    for name in ("q_norm", "k_norm"):
        yield Tensor(f"{prefix}.{name}.weight", (d.head,), d.dtype)


def _linear_attention(d: Dims, prefix: str) -> Iterator[Tensor]:
    value, state = d.value_heads * LINEAR_HEAD, d.state_dtype or d.dtype
    qkv = 2 * d.key_heads * LINEAR_HEAD + value
    shapes = {"in_proj_qkv": (qkv, d.hidden), "in_proj_z": (value, d.hidden), "out_proj": (d.hidden, value)}
    for name, shape in shapes.items():
        yield Tensor(f"{prefix}.{name}.weight", shape, d.dtype)
    for name in ("in_proj_b", "in_proj_a"):
        yield Tensor(f"{prefix}.{name}.weight", (d.value_heads, d.hidden), d.dtype)
    yield Tensor(f"{prefix}.conv1d.weight", (qkv, 1, 4), d.dtype)
    yield Tensor(f"{prefix}.A_log", (d.value_heads,), state)
    yield Tensor(f"{prefix}.dt_bias", (d.value_heads,), d.dtype)
    yield Tensor(f"{prefix}.norm.weight", (LINEAR_HEAD,), state)


def _vision(d: Dims) -> Iterator[Tensor]:
    prefix, width, merged = "model.visual", d.vision_hidden, 4 * d.vision_hidden
    yield from _affine(d, f"{prefix}.patch_embed.proj", (width, *PATCH))
    yield Tensor(f"{prefix}.pos_embed.weight", (d.positions, width), d.dtype)
    for block in range(d.vision_depth):
        yield from _vision_block(d, f"{prefix}.blocks.{block}")
    yield from _affine(d, f"{prefix}.merger.norm", (width,))
    yield from _affine(d, f"{prefix}.merger.linear_fc1", (merged, merged))
    yield from _affine(d, f"{prefix}.merger.linear_fc2", (d.hidden, merged))


def _vision_block(d: Dims, prefix: str) -> Iterator[Tensor]:
    width, inner = d.vision_hidden, d.vision_intermediate
    for name in ("norm1", "norm2"):
        yield from _affine(d, f"{prefix}.{name}", (width,))
    yield from _affine(d, f"{prefix}.attn.qkv", (3 * width, width))
    yield from _affine(d, f"{prefix}.attn.proj", (width, width))
    yield from _affine(d, f"{prefix}.mlp.linear_fc1", (inner, width))
    yield from _affine(d, f"{prefix}.mlp.linear_fc2", (width, inner))


def _affine(d: Dims, name: str, shape: tuple[int, ...]) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", shape, d.dtype)
    yield Tensor(f"{name}.bias", shape[:1], d.dtype)
