"""The sample's files that are not weights: config, byte-level tokenizer, processors, card; text only, made in place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = 256
EXPERTS: Final = 8
EXPERT_WIDTH: Final = 64
HEADS: Final = 2
KEY_VALUE_HEADS: Final = 1
HEAD_WIDTH: Final = 64
LINEAR_KEY_HEADS: Final = 1
LINEAR_VALUE_HEADS: Final = 2
LINEAR_HEAD_WIDTH: Final = 128
CONVOLUTION: Final = 4
LAYERS: Final = ("linear_attention", "linear_attention", "linear_attention", "full_attention")
VOCABULARY: Final = 320
VISION_HIDDEN: Final = 64
VISION_WIDTH: Final = 144
"""Like the real tower's 4304: no multiple of 32."""
VISION_DEPTH: Final = 2
PATCH: Final = (3, 2, 16, 16)
"""Channels, frames, height and width of a vision patch."""
MERGE: Final = 2
POSITIONS: Final = 64

SPECIAL_TOKENS: Final = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_ID: Final = {token: 256 + position for position, token in enumerate(SPECIAL_TOKENS)}
_TORCH_DTYPES: Final = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}

_CHAT_TEMPLATE: Final = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'image' %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif part.type == 'video' %}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- else %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

_README: Final = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
tags:
- schemegen-sample
---

# A small checkpoint with the names and the layout of Qwen3.6

Its weights are pseudo-random and mean nothing. Names, shapes in their proportions, fused experts, vision tower, MTP
block and the files beside the weights are those of a real release, so that everything done to one can be tried here.
"""

_LICENSE: Final = """\
Licensed under the Apache License, Version 2.0. You may obtain a copy of the License at

    https://www.apache.org/licenses/LICENSE-2.0
"""


def sample_texts(dtype: str) -> dict[str, str]:
    """Every text file of the sample by name; `dtype` is the safetensors dtype of its weights."""
    return {
        "config.json": _json(_config(_TORCH_DTYPES[dtype])),
        "generation_config.json": _json(_GENERATION),
        "tokenizer.json": _json(_tokenizer()),
        "tokenizer_config.json": _json(_tokenizer_config()),
        "chat_template.jinja": _CHAT_TEMPLATE,
        "preprocessor_config.json": _json(_processor("Qwen2VLImageProcessorFast", "image")),
        "video_preprocessor_config.json": _json(_processor("Qwen3VLVideoProcessor", "video")),
        "README.md": _README,
        "LICENSE": _LICENSE,
        "examples/prompt.txt": "Give me a fun fact about the ocean.\n",
    }


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _config(dtype: str) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "image_token_id": _ID["<|image_pad|>"],
        "model_type": "qwen3_5_moe",
        "text_config": _text_config(dtype),
        "tie_word_embeddings": False,
        "transformers_version": "4.57.1",
        "video_token_id": _ID["<|video_pad|>"],
        "vision_config": _vision_config(),
        "vision_end_token_id": _ID["<|vision_end|>"],
        "vision_start_token_id": _ID["<|vision_start|>"],
    }


def _text_config(dtype: str) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "dtype": dtype,
        "eos_token_id": _ID["<|endoftext|>"],
        "full_attention_interval": len(LAYERS),
        "head_dim": HEAD_WIDTH,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "layer_types": list(LAYERS),
        "linear_conv_kernel_dim": CONVOLUTION,
        "linear_key_head_dim": LINEAR_HEAD_WIDTH,
        "linear_num_key_heads": LINEAR_KEY_HEADS,
        "linear_num_value_heads": LINEAR_VALUE_HEADS,
        "linear_value_head_dim": LINEAR_HEAD_WIDTH,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 4096,
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": EXPERT_WIDTH,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": HEADS,
        "num_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "num_hidden_layers": len(LAYERS),
        "num_key_value_heads": KEY_VALUE_HEADS,
        "output_router_logits": False,
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [4, 2, 2],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000000,
            "rope_type": "default",
        },
        "router_aux_loss_coef": 0.001,
        "shared_expert_intermediate_size": EXPERT_WIDTH,
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def _vision_config() -> dict[str, Any]:
    return {
        "deepstack_visual_indexes": [],
        "depth": VISION_DEPTH,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": VISION_HIDDEN,
        "in_channels": PATCH[0],
        "initializer_range": 0.02,
        "intermediate_size": VISION_WIDTH,
        "model_type": "qwen3_5_moe",
        "num_heads": 2,
        "num_position_embeddings": POSITIONS,
        "out_hidden_size": HIDDEN,
        "patch_size": PATCH[2],
        "spatial_merge_size": MERGE,
        "temporal_patch_size": PATCH[1],
    }


_GENERATION: Final = {
    "bos_token_id": _ID["<|endoftext|>"],
    "do_sample": True,
    "eos_token_id": [_ID["<|im_end|>"], _ID["<|endoftext|>"]],
    "pad_token_id": _ID["<|endoftext|>"],
    "temperature": 0.7,
    "top_k": 20,
    "top_p": 0.8,
    "transformers_version": "4.57.1",
}


def _processor(kind: str, medium: str) -> dict[str, Any]:
    return {
        f"{medium}_processor_type": kind,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "merge_size": MERGE,
        "patch_size": PATCH[2],
        "processor_class": "Qwen3VLProcessor",
        "size": {"longest_edge": 16777216, "shortest_edge": 4096},
        "temporal_patch_size": PATCH[1],
    }


def _tokenizer() -> dict[str, Any]:
    """A byte-level BPE without merges: the id of a byte is its value, the special tokens follow."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **flags} for token, number in _ID.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {letter: byte for byte, letter in enumerate(_byte_letters())},
            "merges": [],
        },
    }


def _byte_letters() -> list[str]:
    """The visible letter that byte-level BPE writes for each byte: its own if it has one, else one from 256 on."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte if byte in visible else 256 + hidden.index(byte)) for byte in range(256)]


def _tokenizer_config() -> dict[str, Any]:
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(number): {"content": token, **flags} for token, number in _ID.items()},
        "bos_token": None,
        "chat_template": _CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": 4096,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }
