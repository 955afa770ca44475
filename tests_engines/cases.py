"""The four outputs that every engine must take, and what each is compared with: the same with its experts decoded."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import schemegen
from schemegen.checkpoint.sample import write_sample
from schemegen.checkpoint.sample_tensors import ExpertsAs
from schemegen.kernels.cpu import decode_int

SCHEME = "kimi-k2-int4"
GROUP, BITS = 32, 4
_EXPERT = re.compile(r"(.+\.experts)\.(\d+)\.(gate|up|down)_proj\.weight(.*)")

Bits = npt.NDArray[np.uint16]
Tensors = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One source layout under one policy."""

    mtp_kept: bool
    experts: ExpertsAs

    @property
    def mtp(self) -> str:
        """What happens to the MTP block, in words."""
        return "kept" if self.mtp_kept else "quantized"

    @property
    def layout(self) -> str:
        """How the source stores experts, in words."""
        return "fused" if self.experts == "fused" else "one by one"

    def __str__(self) -> str:
        return f"MTP {self.mtp}, {self.layout}"


CASES = [Case(kept, experts) for kept in (False, True) for experts in ("fused", "separate")]


@dataclass(frozen=True, slots=True)
class Output:
    """What schemegen made of a case, the plan it followed, and `plain`, the output with its experts decoded."""

    case: Case
    folder: Path
    plan: schemegen.Plan
    plain: Path


def make(case: Case, folder: Path) -> Output:
    """Write the sample, run the scheme over it, decode the output; all in `folder`, which is not there yet."""
    source, output, plain = (folder / name for name in ("model", "output", "plain"))
    write_sample("qwen3.6-moe", source, experts=case.experts)
    policies = ["keep-mtp"] if case.mtp_kept else []
    plan = schemegen.plan(SCHEME, source, policies=policies)
    schemegen.apply(SCHEME, source, output, policies=policies)
    decode(output, plain, fused=case.experts == "fused")
    return Output(case, output, plan, plain)


def decode(output: Path, folder: Path, *, fused: bool) -> None:
    """Write the output anew with BF16 experts, in stacks or one by one, and without a quantization_config."""
    from safetensors.torch import save_file

    shutil.copytree(output, folder, ignore=shutil.ignore_patterns("*.safetensors", "schemegen.json"))
    config = json.loads((output / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    plain = decoded_tensors(stored_tensors(output))
    tensors = stacked(plain) if fused else plain
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "model.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def stored_tensors(folder: Path) -> Tensors:
    """All tensors of a checkpoint, by name."""
    from safetensors.torch import load_file

    return {name: tensor for shard in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(shard).items()}


def decoded_tensors(stored: Tensors) -> Tensors:
    """The tensors with every packed matrix decoded to BF16 under the name it had in the source."""
    import torch

    plain = {name: tensor for name, tensor in stored.items() if ".weight_" not in name}
    for name in stored:
        if name.endswith(".weight_packed"):
            weight = name.removesuffix("_packed")
            packed, scale = stored[name].numpy().view(np.uint32), bits(stored[f"{weight}_scale"])
            out = np.empty((len(packed), packed.shape[1] * 32 // BITS), np.uint16)
            decode_int(packed, "BF16", BITS, GROUP, scale, out)
            plain[weight] = torch.from_numpy(out.view(np.int16)).view(torch.bfloat16)
    return plain


def stacked(tensors: Tensors) -> Tensors:
    """The tensors with experts that lie one by one stacked as gate_up_proj and down_proj, gate rows above up rows."""
    import torch

    found: Tensors = {name: tensor for name, tensor in tensors.items() if not _EXPERT.fullmatch(name)}
    matrices: dict[str, dict[tuple[int, str], Any]] = defaultdict(dict)
    for name, tensor in tensors.items():
        if parts := _EXPERT.fullmatch(name):
            matrices[parts[1]][int(parts[2]), parts[3]] = tensor
    for module, of in matrices.items():
        numbers = sorted({number for number, _ in of})
        gate_up = [torch.cat([of[number, "gate"], of[number, "up"]]) for number in numbers]
        found[f"{module}.gate_up_proj"] = torch.stack(gate_up)
        found[f"{module}.down_proj"] = torch.stack([of[number, "down"] for number in numbers])
    return found


def bits(tensor: Any) -> Bits:
    """The bits of a BF16 tensor."""
    import torch

    found: Bits = tensor.detach().contiguous().view(torch.int16).numpy().view(np.uint16).copy()
    return found


def module_of(name: str, fused: Mapping[str, Sequence[str]]) -> str:
    """The engine's module that takes a stored tensor: its layer's experts, a fused layer, or the layer of its name."""
    module = name.rpartition(".")[0]
    if ".experts." in f"{module}.":
        return module[: f"{module}.".index(".experts.")] + ".experts"
    parent, dot, last = module.rpartition(".")
    return parent + dot + next((layer for layer, members in fused.items() if last in members), last)
