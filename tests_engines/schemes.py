"""Every built-in scheme over both layouts: what schemegen makes of a sample that is wide enough for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import schemegen
from schemegen.checkpoint import sample_texts
from schemegen.checkpoint.sample import write_sample
from schemegen.checkpoint.sample_tensors import ExpertsAs
from schemegen.codecs import codec_of
from schemegen.planner import PlannedTensor
from schemegen.scheme import Format
from tests_engines.cases import Tensors, stacked, stored_tensors

ROOT = Path(__file__).resolve().parent.parent
NAMES = sorted(path.stem for path in (ROOT / "schemes").glob("*.yaml"))
_ITEMS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class SchemeCase:
    """A scheme over a sample whose trunk and MTP block store their experts so."""

    scheme: str
    experts: ExpertsAs

    def __str__(self) -> str:
        return f"{self.scheme}, {'fused' if self.experts == 'fused' else 'one by one'}"


CASES = [SchemeCase(name, experts) for name in NAMES for experts in ("fused", "separate")]


@dataclass(frozen=True, slots=True)
class SchemeOutput:
    """What schemegen made of a case, and the plan it followed."""

    case: SchemeCase
    folder: Path
    plan: schemegen.Plan

    @property
    def block(self) -> dict[str, Any]:
        """The output's quantization_config."""
        found: dict[str, Any] = json.loads((self.folder / "config.json").read_text())["quantization_config"]
        return found


def write_source(folder: Path, experts: ExpertsAs) -> None:
    """The sample, wide: groups and blocks of 128 fit, and the kernels of W4AFP8 want widths that 256 divides."""
    with patch.multiple(sample_texts, HIDDEN=512, EXPERT_WIDTH=256, KEY_VALUE_HEADS=2):
        write_sample("qwen3.6-moe", folder, experts=experts, mtp_experts=experts)


def make(case: SchemeCase, source: Path, folder: Path) -> SchemeOutput:
    """Run the scheme over the source."""
    plan = schemegen.plan(case.scheme, source)
    schemegen.apply(case.scheme, source, folder)
    return SchemeOutput(case, folder, plan)


def summary_of(format: Format) -> str:
    """What tells formats apart, in the words in which vLLM holds them."""
    weights, activations = format.weights, format.input_activations
    acts = "" if activations is None else f" with {activations.type}{activations.num_bits} {activations.strategy}"
    return f"{weights.type}{weights.num_bits} {weights.strategy} {weights.group_size} {weights.symmetric}{acts}"


def decoded(output: SchemeOutput, *, fused: bool) -> Tensors:
    """The output's tensors with every quantized matrix decoded to BF16, experts in stacks or one by one."""
    import torch

    stored = stored_tensors(output.folder)
    plain: Tensors = {}
    for tensor in output.plan.tensors:
        if tensor.format is None:
            plain[tensor.name] = stored[tensor.name]
            continue
        for module, weights in _decoded(output, tensor, stored):
            plain[f"{module}.weight"] = torch.from_numpy(weights.view(np.int16)).view(torch.bfloat16)
    return stacked(plain) if fused else plain


def _decoded(output: SchemeOutput, tensor: PlannedTensor, stored: Tensors) -> Iterator[tuple[str, Any]]:
    codec = codec_of(output.plan.format_of(tensor))
    for module in tensor.modules:
        pieces = {piece.suffix: _items(stored[f"{module}.{piece.suffix}"]) for piece in tensor.pieces}
        out = np.empty((1, *tensor.matrix_shape), np.uint16)
        codec.decode(pieces, tensor.source.dtype, out)
        yield module, out[0]


def _items(tensor: Any) -> Any:
    """The bits of a tensor as one matrix of a stack."""
    import torch

    raw = tensor.contiguous().view(torch.uint8).numpy()
    return raw.view(_ITEMS[tensor.element_size()]).reshape(1, *tensor.shape)


def write_plain(output: SchemeOutput, folder: Path, *, fused: bool) -> Path:
    """The output again, decoded and without a quantization_config."""
    import shutil

    from safetensors.torch import save_file

    shutil.copytree(output.folder, folder, ignore=shutil.ignore_patterns("*.safetensors", "schemegen.json"))
    config = json.loads((output.folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor.contiguous() for name, tensor in decoded(output, fused=fused).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "model.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
