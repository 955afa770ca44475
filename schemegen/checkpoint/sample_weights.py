"""The sample's tensors: Qwen3.6's names and layout, and values that are the same on every platform."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from schemegen.checkpoint import sample_texts as size

if TYPE_CHECKING:
    from numpy.typing import NDArray

ITEM_BYTES: Final = {"BF16": 2, "F16": 2, "F32": 4}
SHARDS: Final = 3


class Values(Enum):
    """What a tensor's values look like: centre, and the power of two that scales noise of about +-2**16."""

    MATRIX = (0, -20)
    CONVOLUTION = (0, -18)
    BIAS = (0, -22)
    ZERO_CENTRED_NORM = (0, -22)
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


def sample_tensors(experts: str, mtp_experts: str) -> Iterator[tuple[int, Stored]]:
    """Shard number (from 1) and tensor; `experts` of trunk and MTP block are "fused" or "separate"."""
    for name, shape, values in _tensors():
        layout = mtp_experts if name.startswith("mtp.") else experts
        whole = Stored(name, shape, name, shape, values)
        for stored in _separate(whole) if ".experts." in name and layout == "separate" else [whole]:
            yield _shard_number(name), stored


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
    yield f"{text}.norm.weight", (hidden,), Values.ZERO_CENTRED_NORM
    for number, kind in enumerate(size.LAYERS):
        yield from _layer(f"{text}.layers.{number}", kind)
    yield from _vision()
    yield "mtp.fc.weight", (hidden, 2 * hidden), Values.MATRIX
    for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield f"mtp.{norm}.weight", (hidden,), Values.ZERO_CENTRED_NORM
    yield from _layer("mtp.layers.0", "full_attention")


def _layer(prefix: str, kind: str) -> Iterator[_Tensor]:
    yield f"{prefix}.input_layernorm.weight", (size.HIDDEN,), Values.ZERO_CENTRED_NORM
    yield f"{prefix}.post_attention_layernorm.weight", (size.HIDDEN,), Values.ZERO_CENTRED_NORM
    yield from _attention(prefix) if kind == "full_attention" else _linear_attention(prefix)
    yield from _experts(f"{prefix}.mlp")


def _attention(prefix: str) -> Iterator[_Tensor]:
    hidden, queries, keys = size.HIDDEN, size.HEADS * size.HEAD_WIDTH, size.KEY_VALUE_HEADS * size.HEAD_WIDTH
    # Each query head brings the gate of its output.
    for name, shape in {"q": (2 * queries, hidden), "k": (keys, hidden), "v": (keys, hidden)}.items():
        yield f"{prefix}.self_attn.{name}_proj.weight", shape, Values.MATRIX
    yield f"{prefix}.self_attn.o_proj.weight", (hidden, queries), Values.MATRIX
    for norm in ("q_norm", "k_norm"):
        yield f"{prefix}.self_attn.{norm}.weight", (size.HEAD_WIDTH,), Values.ZERO_CENTRED_NORM


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
    yield f"{module}.bias", shape[:1], Values.BIAS


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


def header_bytes(tensors: list[Stored], dtype: str) -> bytes:
    """The safetensors header, length word included, of tensors stored one after another, padded to 8 bytes."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    for tensor in tensors:
        end = position + nbytes(tensor, dtype)
        entries[tensor.name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [position, end]}
        position = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def nbytes(tensor: Stored, dtype: str) -> int:
    """Bytes of the tensor's data."""
    count = ITEM_BYTES[dtype]
    for extent in tensor.shape:
        count *= extent
    return count


def tensor_bytes(tensor: Stored, dtype: str) -> bytes:
    """The tensor's data, little endian, rounded half to even from the F32 values that all layouts share."""
    import numpy as np

    values = _source_values(tensor)
    if tensor.block is not None:
        expert, first, end = tensor.block
        values = values[expert, first:end]
    if dtype == "BF16":
        bits = values.view(np.uint32)
        rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
        return rounded.astype("<u2").tobytes()
    return values.astype("<f2" if dtype == "F16" else "<f4").tobytes()


def _source_values(tensor: Stored) -> NDArray[np.float32]:
    """F32 values of the whole source tensor: sums of two 16-bit numbers, shifted and scaled without rounding.

    Only the raw output of PCG64 is used, which numpy promises not to change.
    """
    import numpy as np

    count = nbytes(tensor, "F32") // 4
    for_source = 1
    for extent in tensor.source_shape:
        for_source *= extent
    raw = np.random.PCG64(zlib.crc32(tensor.source.encode())).random_raw(-(-for_source // 2))
    del count
    halves = raw.astype("<u8", copy=False).view("<u2").astype(np.int32)
    noise = halves[0::2] + halves[1::2] - 0xFFFF
    centre, exponent = tensor.values.value
    values = noise[:for_source].astype(np.float32) * np.float32(2.0**exponent) + np.float32(centre)
    return values.reshape(tensor.source_shape)
