"""What transformers makes of a checkpoint: its logits, and what it says of the tensors it found."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKENS = 199


@dataclass(frozen=True, slots=True)
class TransformersRun:
    """Logits [1, tokens, vocabulary]; tensors that the model lacks, that it has no use for; its stacks of experts."""

    logits: Any
    missing: list[str]
    unexpected: list[str]
    experts: dict[str, Any]


def run_transformers(folder: Path) -> TransformersRun:
    """Load in BF16, packed experts decoded at load, and run a fixed text. The MTP block is none of transformers'."""
    import torch
    import transformers

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model, told = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.bfloat16, output_loading_info=True
        )
        logits = model.eval()(input_ids=torch.arange(1, TOKENS + 1).reshape(1, -1)).logits
    unexpected = [key for key in told["unexpected_keys"] if not key.startswith("mtp.")]
    experts = {name: value.data for name, value in model.named_parameters() if ".mlp.experts." in name}
    return TransformersRun(logits, list(told["missing_keys"]), unexpected, experts)
