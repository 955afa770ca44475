"""The sample's files that are not weights: config, tokenizer, processors and card, all made in place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from schemegen.checkpoint.sample_tokenizer import CHAT_TEMPLATE, TOKEN_IDS, tokenizer, tokenizer_config

HIDDEN: Final = 384
EXPERTS: Final = 8
EXPERT_WIDTH: Final = 128
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

_TORCH_DTYPES: Final = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}

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
        "tokenizer.json": _json(tokenizer()),
        "tokenizer_config.json": _json(tokenizer_config()),
        "chat_template.jinja": CHAT_TEMPLATE,
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
        "image_token_id": TOKEN_IDS["<|image_pad|>"],
        "model_type": "qwen3_5_moe",
        "text_config": _text_config(dtype),
        "tie_word_embeddings": False,
        "transformers_version": "4.57.1",
        "video_token_id": TOKEN_IDS["<|video_pad|>"],
        "vision_config": _vision_config(),
        "vision_end_token_id": TOKEN_IDS["<|vision_end|>"],
        "vision_start_token_id": TOKEN_IDS["<|vision_start|>"],
    }


def _text_config(dtype: str) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "dtype": dtype,
        "eos_token_id": TOKEN_IDS["<|endoftext|>"],
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
    "bos_token_id": TOKEN_IDS["<|endoftext|>"],
    "do_sample": True,
    "eos_token_id": [TOKEN_IDS["<|im_end|>"], TOKEN_IDS["<|endoftext|>"]],
    "pad_token_id": TOKEN_IDS["<|endoftext|>"],
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
