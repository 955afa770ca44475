"""config.json and generation_config.json that go with `layout.tensors`."""

from __future__ import annotations

from bench.layout import CONFIG_DTYPES, LINEAR_HEAD, Dims, is_full

Json = dict[str, object]


def config(d: Dims) -> Json:
    """The whole config.json, keys in the order the Hub has them."""
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "image_token_id": 248056,
        "model_type": "qwen3_5_moe",
        "text_config": _text(d),
        "tie_word_embeddings": False,
        "transformers_version": "4.57.1",
        "video_token_id": 248057,
        "vision_config": _vision(d),
        "vision_end_token_id": 248054,
        "vision_start_token_id": 248053,
    }


def generation_config() -> Json:
    """A generation_config.json as a chat model ships it."""
    return {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "transformers_version": "4.57.1"}


def _text(d: Dims) -> Json:
    return {
        "attention_bias": False,
        "attn_output_gate": True,
        "dtype": CONFIG_DTYPES[d.dtype],
        "full_attention_interval": d.full_every,
        "head_dim": d.head,
        "hidden_act": "silu",
        "hidden_size": d.hidden,
        "layer_types": ["full_attention" if is_full(d, n) else "linear_attention" for n in range(d.layers)],
        **_linear_attention(d),
        "max_position_embeddings": 262144,
        **_experts(d),
        "model_type": "qwen3_5_moe_text",
        "mtp_num_hidden_layers": d.mtp,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": d.heads,
        "num_hidden_layers": d.layers,
        "num_key_value_heads": d.kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_parameters": _rope(),
        "vocab_size": d.vocab,
    }


def _linear_attention(d: Dims) -> Json:
    return {
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": LINEAR_HEAD,
        "linear_num_key_heads": d.key_heads,
        "linear_num_value_heads": d.value_heads,
        "linear_value_head_dim": LINEAR_HEAD,
        "mamba_ssm_dtype": "float32",
    }


def _experts(d: Dims) -> Json:
    return {
        "moe_intermediate_size": d.intermediate,
        "num_experts": d.experts,
        "num_experts_per_tok": min(8, d.experts),
        "shared_expert_intermediate_size": d.intermediate,
    }


def _rope() -> Json:
    return {
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000000,
        "rope_type": "default",
    }


def _vision(d: Dims) -> Json:
    return {
        "deepstack_visual_indexes": [],
        "depth": d.vision_depth,
        "hidden_size": d.vision_hidden,
        "in_channels": 3,
        "intermediate_size": d.vision_intermediate,
        "model_type": "qwen3_5_moe",
        "num_heads": 16 if d.vision_hidden >= 512 else 2,
        "num_position_embeddings": d.positions,
        "out_hidden_size": d.hidden,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
