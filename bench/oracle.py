"""Who else computes a plan's bits: llm-compressor's model_free_ptq, or compressed-tensors' compressor of NVFP4.

Each format of a plan is compared on its own, by name, dtype, shape and bytes: model_free_ptq through its plugin's
worker, within this process, and where that fuses other layers, the compressor with the global scale of ours.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Final

from bench.compare import stored_tensors
from bench.lost import DifferentError, content, lost_groups
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import UnsupportedError
from schemegen.formats import DTYPE_BITS, storage_of
from schemegen.peer import fusion_difference, rounding_difference, scheme_words
from schemegen.planner import Plan, PlannedTensor

PLUGIN: Final = "schemegen_llmcompressor"
MODEL_FREE: Final = "model_free_ptq"
COMPRESSOR: Final = "compressed-tensors, global scale given"
NOBODY: Final = "nobody else"
NO_PLUGIN: Final = "not asked: no plugin"


def agreeing(plan: Plan, checkpoint: Checkpoint, output: Path, scratch: Path) -> dict[str, str]:
    """By format, who computes the bits that `output` holds; DifferentError where somebody computes others."""
    return {name: _agreeing(plan, name, checkpoint, output, scratch / name) for name in plan.formats_used}


def _agreeing(plan: Plan, name: str, checkpoint: Checkpoint, output: Path, scratch: Path) -> str:
    part = replace(plan, tensors=tuple(tensor for tensor in plan.tensors if tensor.format == name))
    format = plan.scheme.formats[name]
    if difference := rounding_difference(format):
        return f"{NOBODY}: {MODEL_FREE} {difference}"
    if find_spec(PLUGIN) is None:
        return NO_PLUGIN
    if fusion_difference(part) is None:
        names = {stored.name for tensor in part.tensors for stored in tensor.outputs}
        lost = lost_groups(output, _model_free(part, checkpoint, scratch), names)
        return f"{MODEL_FREE}, but for {lost} groups that it loses" if lost else MODEL_FREE
    if storage_of(format) != "nvfp4-pack-quantized":
        raise UnsupportedError(f"no oracle for {name}")
    _compare_compressor(part, checkpoint, output)
    return COMPRESSOR


def _model_free(part: Plan, checkpoint: Checkpoint, scratch: Path) -> Path:
    """The folder of what model_free_ptq makes of a plan with one format."""
    os.environ |= {"LLM_COMPRESSOR_LOG_DISABLED": "true", "TQDM_DISABLE": "1"}
    from schemegen_llmcompressor import worker
    from schemegen_llmcompressor.orders import order_of
    from schemegen_llmcompressor.parts import parts_of

    result, links = scratch / "result", scratch / "links"
    for folder in (result, links):
        folder.mkdir(parents=True)
    order = order_of(part, checkpoint, parts_of(part), result, ["cpu"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worker.quantize(json.loads(json.dumps(order)), links)
    return result


def _compare_compressor(part: Plan, checkpoint: Checkpoint, output: Path) -> None:
    """Every matrix of NVFP4: the global scale of its layer, then codes and scales under it."""
    weights = dict(chain.from_iterable(_matrices(tensor, checkpoint) for tensor in part.tensors))
    largest: dict[str, Any] = {}
    for module, weight in weights.items():
        layer, top = part.layer_of(module), weight.abs().max()
        largest[layer] = max(largest.get(layer, top), top)
    format = next(iter(part.formats_used.values()))
    ours = stored_tensors(output)
    for module, weight in weights.items():
        for suffix, tensor in _compressed(weight, largest[part.layer_of(module)], scheme_words(format)).items():
            name = f"{module}.{suffix}"
            if content(output, ours[name])[2] != _bytes(tensor):
                raise DifferentError(f"{name}: other bits than {COMPRESSOR}")


def _matrices(tensor: PlannedTensor, checkpoint: Checkpoint) -> Iterator[tuple[str, Any]]:
    """Module and weight, one a matrix."""
    import torch

    dtypes = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    source, shape = tensor.source, tensor.matrix_shape
    size = shape[0] * shape[1] * DTYPE_BITS[source.dtype] // 8
    with checkpoint.path(source.file).open("rb") as file:
        file.seek(source.offset)
        for module in tensor.modules:
            raw = bytearray(file.read(size))
            yield module, torch.frombuffer(raw, dtype=dtypes[source.dtype]).reshape(shape)


def _compressed(weight: Any, largest: Any, words: dict[str, Any]) -> dict[str, Any]:
    """What the compressor stores of one matrix whose layer's largest magnitude is given."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    arguments = QuantizationArgs(**words["weights"])
    global_scale = generate_gparam(-largest.reshape(1), largest.reshape(1))
    groups = weight.reshape(weight.shape[0], -1, arguments.group_size)
    low, high = groups.amin(-1), groups.amax(-1)
    scale, zero_point = calculate_qparams(low, high, arguments, global_scale=global_scale)
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments, format=words["format"])
    state = {"weight": weight, "weight_scale": scale, "weight_global_scale": global_scale}
    compressor = BaseCompressor.get_value_from_registry(words["format"])
    return dict(compressor.compress({**state, "weight_zero_point": zero_point}, scheme))


def _bytes(tensor: Any) -> bytes:
    import torch

    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())
