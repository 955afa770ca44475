"""Watches vLLM load a checkpoint: what its matcher says of each module, and what its loader has put where.

To be installed before vLLM builds a model. Nothing that vLLM does is changed but one thing: parameters hold NaN before
weights are loaded, so that one which no tensor reaches is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests_engines.cases import Bits, bits


@dataclass(slots=True)
class Recording:
    """`lookups`: (module, vLLM's class, its quantization method, format), in the order vLLM asked for them.

    `experts`: by module, gate above up [experts, 2 * width, hidden] and down [experts, hidden, width], as BF16 bits.
    `missing`: parameters that loading left untouched. `fused`: vLLM's fused layers and what they are made of.
    `drafts`: for each step of the drafter the token that it found most probable and its logit, a pair a sequence.
    """

    lookups: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    experts: dict[str, tuple[Bits, Bits]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    fused: dict[str, list[str]] = field(default_factory=dict)
    drafts: list[list[tuple[int, float]]] = field(default_factory=list)
    _layers: list[tuple[str, Any]] = field(default_factory=list)

    def install(self) -> None:
        """Put the watch on vLLM's matcher and loader."""
        self._watch_matcher()
        self._watch_loader()
        self._watch_drafter()

    @property
    def kernels(self) -> list[str]:
        """The classes that run quantized experts; where it is the emulation, what vLLM said before it took over."""
        choice = sys.modules.get("vllm_hooks.emulation_choice")
        packed = [layer for _, layer in self._layers if hasattr(layer, "w13_weight_scale")]
        classes = {layer.quant_method.experts_cls.__name__ for layer in packed}
        return sorted(classes | {*getattr(choice, "REFUSALS", ())})

    def _watch_matcher(self) -> None:
        from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import (
            CompressedTensorsConfig,
        )

        choose = CompressedTensorsConfig.get_quant_method

        def get_quant_method(config: Any, layer: Any, prefix: str) -> Any:
            method = choose(config, layer, prefix)
            self._layers.append((prefix, layer))
            self.fused |= config.packed_modules_mapping
            self.lookups.append((prefix, _kind(layer), type(method).__name__ if method else None, _format(method)))
            return method

        CompressedTensorsConfig.get_quant_method = get_quant_method

    def _watch_drafter(self) -> None:
        from vllm.model_executor.models.qwen3_5_mtp import Qwen3_5MTP

        compute = Qwen3_5MTP.compute_logits

        def compute_logits(model: Any, *args: Any, **named: Any) -> Any:
            logits = compute(model, *args, **named)
            best = logits.max(dim=-1)
            self.drafts.append(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
            return logits

        Qwen3_5MTP.compute_logits = compute_logits

    def _watch_loader(self) -> None:
        from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

        load = DefaultModelLoader.load_weights

        def load_weights(loader: Any, model: Any, model_config: Any) -> None:
            _fill_with_nan(model)
            load(loader, model, model_config)
            self.missing += _untouched(model)
            for name, layer in self._layers:
                if _kind(layer) == "RoutedExperts" and name not in self.experts:
                    self.experts[name] = _loaded_experts(layer)

        DefaultModelLoader.load_weights = load_weights


def _kind(layer: Any) -> str:
    from vllm.model_executor.layers.fused_moe import RoutedExperts
    from vllm.model_executor.layers.linear import LinearBase

    kinds: tuple[type, ...] = (RoutedExperts, LinearBase)
    return next((kind for kind in kinds if isinstance(layer, kind)), type(layer)).__name__


def _format(method: Any) -> str | None:
    weights = getattr(method, "weight_quant", None)
    if weights is None:
        return None
    return f"{weights.type}{weights.num_bits} {weights.strategy} {weights.group_size}"


def _fill_with_nan(model: Any) -> None:
    for _, parameter in _weights(model):
        parameter.data.fill_(float("nan"))


def _untouched(model: Any) -> list[str]:
    return [name for name, parameter in _weights(model) if bool(parameter.isnan().any())]


def _weights(model: Any) -> Iterator[tuple[str, Any]]:
    """All parameters but single numbers: those are scales of the KV cache, which a checkpoint may leave out."""
    named = model.named_parameters()
    return ((name, value) for name, value in named if value.numel() > 1 and value.is_floating_point())


def _loaded_experts(layer: Any) -> tuple[Bits, Bits]:
    """What the loader has put into a layer, decoded by vLLM's own dequantizer where it is packed."""
    if hasattr(layer, "w13_weight"):
        return bits(layer.w13_weight), bits(layer.w2_weight)
    from vllm.model_executor.layers.fused_moe.oracle.int_wna16 import _process_weights_emulation_gptq

    packed = (layer.w13_weight_packed.data, layer.w2_weight_packed.data)
    scales = (layer.w13_weight_scale.data, layer.w2_weight_scale.data)
    w13, w2, *_ = _process_weights_emulation_gptq(*packed, *scales, None, None)
    return bits(w13), bits(w2)
