"""The sample's tensors: names, shapes and shards as Qwen3.6 has them, experts fused or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from schemegen.checkpoint import sample_texts as size

ExpertsAs = Literal["fused", "separate"]
SHARD_COUNT: Final = 3
_SHARD_NUMBERS: Final = range(1, SHARD_COUNT + 1)


class Values(Enum):
    """What a tensor's values look like: centre, and the power of two that scales noise of about +-2**16."""

    MATRIX = (0, -20)
    CONVOLUTION = (0, -18)
    ZERO_CENTRED = (0, -22)
    ONE_CENTRED = (1, -22)
    DECAY = (1, -17)


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored tensor: its values are block `block` of the tensor `source`, all of it where `block` is None.

    A block is (expert, first row, last row + 1) of a stack of experts.
    """

    name: str
    shape: tuple[int, ...]
    source: str
    source_shape: tuple[int, ...]
    values: Values
    block: tuple[int, int, int] | None = None


def sample_shards(experts: ExpertsAs, mtp_experts: ExpertsAs) -> Mapping[str, list[Stored]]:
    """The tensors of every shard, sorted by name; trunk and MTP block store their experts each in its own way."""
    shards: dict[str, list[Stored]] = {f"model-{n:05}-of-{SHARD_COUNT:05}.safetensors": [] for n in _SHARD_NUMBERS}
    by_number = dict(zip(_SHARD_NUMBERS, shards.values(), strict=True))
    for name, shape, values in _tensors():
        layout = mtp_experts if name.startswith("mtp.") else experts
        whole = Stored(name, shape, name, shape, values)
        is_separate = layout == "separate" and ".experts." in name
        by_number[_shard_number(name)].extend(_separate(whole) if is_separate else [whole])
    return {shard: sorted(tensors, key=_name) for shard, tensors in shards.items()}


def _name(tensor: Stored) -> str:
    return tensor.name


def _shard_number(name: str) -> int:
    """The second half of layer 1's experts stands apart from the first, as shards of a limited size split them."""
    if name.startswith(("mtp.", "lm_head.", "model.visual.merger.")):
        return 3
    if name.startswith(("model.language_model.embed_tokens.", "model.language_model.layers.0.")):
        return 1
    return 1 if ".layers.1." in name and not name.endswith(".experts.down_proj") else 2


_Tensor = tuple[str, tuple[int, ...], Values]


def _tensors() -> Iterator[_Tensor]:
    hidden, text = size.HIDDEN, "model.language_model"
    yield "lm_head.weight", (size.VOCABULARY, hidden), Values.MATRIX
    yield f"{text}.embed_tokens.weight", (size.VOCABULARY, hidden), Values.MATRIX
    yield f"{text}.norm.weight", (hidden,), Values.ZERO_CENTRED
    for number, kind in enumerate(size.LAYERS):
        yield from _layer(f"{text}.layers.{number}", kind)
    yield from _vision()
    yield "mtp.fc.weight", (hidden, 2 * hidden), Values.MATRIX
    for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield f"mtp.{norm}.weight", (hidden,), Values.ZERO_CENTRED
    yield from _layer("mtp.layers.0", "full_attention")


def _layer(prefix: str, kind: str) -> Iterator[_Tensor]:
    yield f"{prefix}.input_layernorm.weight", (size.HIDDEN,), Values.ZERO_CENTRED
    yield f"{prefix}.post_attention_layernorm.weight", (size.HIDDEN,), Values.ZERO_CENTRED
    yield from _attention(prefix) if kind == "full_attention" else _linear_attention(prefix)
    yield from _experts(f"{prefix}.mlp")


def _attention(prefix: str) -> Iterator[_Tensor]:
    hidden, queries, keys = size.HIDDEN, size.HEADS * size.HEAD_WIDTH, size.KEY_VALUE_HEADS * size.HEAD_WIDTH
    # Each query head brings the gate of its output.
    for name, shape in {"q": (2 * queries, hidden), "k": (keys, hidden), "v": (keys, hidden)}.items():
        yield f"{prefix}.self_attn.{name}_proj.weight", shape, Values.MATRIX
    yield f"{prefix}.self_attn.o_proj.weight", (hidden, queries), Values.MATRIX
    for norm in ("q_norm", "k_norm"):
        yield f"{prefix}.self_attn.{norm}.weight", (size.HEAD_WIDTH,), Values.ZERO_CENTRED


def _linear_attention(prefix: str) -> Iterator[_Tensor]:
    hidden, heads, module = size.HIDDEN, size.LINEAR_VALUE_HEADS, f"{prefix}.linear_attn"
    values = heads * size.LINEAR_HEAD_WIDTH
    mixed = 2 * size.LINEAR_KEY_HEADS * size.LINEAR_HEAD_WIDTH + values
    for name, rows in {"qkv": mixed, "z": values, "b": heads, "a": heads}.items():
        yield f"{module}.in_proj_{name}.weight", (rows, hidden), Values.MATRIX
    yield f"{module}.out_proj.weight", (hidden, values), Values.MATRIX
    yield f"{module}.conv1d.weight", (mixed, 1, size.CONVOLUTION), Values.CONVOLUTION
    yield f"{module}.A_log", (heads,), Values.DECAY
    yield f"{module}.dt_bias", (heads,), Values.ONE_CENTRED
    yield f"{module}.norm.weight", (size.LINEAR_HEAD_WIDTH,), Values.ONE_CENTRED


def _experts(module: str) -> Iterator[_Tensor]:
    hidden, width = size.HIDDEN, size.EXPERT_WIDTH
    yield f"{module}.gate.weight", (size.EXPERTS, hidden), Values.MATRIX
    yield f"{module}.experts.gate_up_proj", (size.EXPERTS, 2 * width, hidden), Values.MATRIX
    yield f"{module}.experts.down_proj", (size.EXPERTS, hidden, width), Values.MATRIX
    for name, shape in {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}.items():
        yield f"{module}.shared_expert.{name}_proj.weight", shape, Values.MATRIX
    yield f"{module}.shared_expert_gate.weight", (1, hidden), Values.MATRIX


def _vision() -> Iterator[_Tensor]:
    hidden, tower = size.VISION_HIDDEN, "model.visual"
    merged = hidden * size.MERGE**2
    yield from _with_bias(f"{tower}.patch_embed.proj", (hidden, *size.PATCH))
    yield f"{tower}.pos_embed.weight", (size.POSITIONS, hidden), Values.MATRIX
    for number in range(size.VISION_DEPTH):
        yield from _vision_block(f"{tower}.blocks.{number}", hidden)
    yield from _with_bias(f"{tower}.merger.norm", (hidden,), Values.ONE_CENTRED)
    yield from _with_bias(f"{tower}.merger.linear_fc1", (merged, merged))
    yield from _with_bias(f"{tower}.merger.linear_fc2", (size.HIDDEN, merged))


def _vision_block(block: str, hidden: int) -> Iterator[_Tensor]:
    for norm in ("norm1", "norm2"):
        yield from _with_bias(f"{block}.{norm}", (hidden,), Values.ONE_CENTRED)
    yield from _with_bias(f"{block}.attn.qkv", (3 * hidden, hidden))
    yield from _with_bias(f"{block}.attn.proj", (hidden, hidden))
    yield from _with_bias(f"{block}.mlp.linear_fc1", (size.VISION_WIDTH, hidden))
    yield from _with_bias(f"{block}.mlp.linear_fc2", (hidden, size.VISION_WIDTH))


def _with_bias(module: str, shape: tuple[int, ...], values: Values = Values.MATRIX) -> Iterator[_Tensor]:
    yield f"{module}.weight", shape, values
    yield f"{module}.bias", shape[:1], Values.ZERO_CENTRED


def _separate(fused: Stored) -> Iterator[Stored]:
    """The matrices of a fused stack, one by one: gate rows stand above up rows."""
    module, _, last = fused.name.rpartition(".")
    experts, rows, columns = fused.shape
    names = ("gate_proj", "up_proj") if last == "gate_up_proj" else ("down_proj",)
    height = rows // len(names)
    for expert in range(experts):
        for part, projection in enumerate(names):
            block = (expert, part * height, (part + 1) * height)
            name = f"{module}.{expert}.{projection}.weight"
            yield Stored(name, (height, columns), fused.name, fused.shape, fused.values, block)
