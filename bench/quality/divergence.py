"""What a checkpoint predicts, byte by byte, beside what its unquantized source predicts; with transformers, in F32."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WINDOW = 256
BATCH = 48


@dataclass(frozen=True, slots=True)
class Prediction:
    """`log_probabilities` [windows, 256, vocabulary] and the routed experts of the trunk by name, all as torch F32."""

    log_probabilities: Any
    experts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Nats per byte, KL divergence of the source's prediction per byte, how often the same byte is the most probable.

    `sqnr` is signal to quantization noise of the trunk's routed experts, in dB; infinite where nothing changed.
    """

    nats: float
    kl: float
    same_top: float
    sqnr: float


def windows(path: Path, count: int) -> Any:
    """The first `count` windows of a file, token id = byte value, [count, 256]."""
    import torch

    data = path.read_bytes()[: count * WINDOW]
    if len(data) < count * WINDOW:
        raise SystemExit(f"{path} holds fewer than {count} windows of {WINDOW} bytes: ask for fewer with --windows")
    return torch.tensor(list(data)).reshape(count, WINDOW)


def predict(folder: Path, tokens: Any) -> Prediction:
    """Load a checkpoint, its quantized matrices decoded at load, and run it over all windows."""
    import torch

    model = _loaded(folder)
    with torch.no_grad():
        found = [model(input_ids=batch).logits.log_softmax(-1) for batch in tokens.split(BATCH)]
    experts = {name: value for name, value in model.state_dict().items() if ".experts." in name}
    return Prediction(torch.cat(found), experts)


def compare(source: Prediction, other: Prediction, tokens: Any) -> Divergence:
    """`other` against the source both were made of."""
    base, found = source.log_probabilities, other.log_probabilities
    kl = (base.exp() * (base - found)).sum(-1).double().mean()
    nats = -found[:, :-1].gather(-1, tokens[:, 1:, None]).double().mean()
    same = (base.argmax(-1) == found.argmax(-1)).double().mean()
    return Divergence(float(nats), float(kl), float(same), _sqnr(source.experts, other.experts))


def _loaded(folder: Path) -> Any:
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, told = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
    faults = [key for key in (*told["missing_keys"], *told["unexpected_keys"]) if not key.startswith("mtp.")]
    if faults:
        raise SystemExit(f"transformers finds tensors missing or unexpected in {folder}: {', '.join(faults[:3])}")
    return model.eval()


def _sqnr(source: dict[str, Any], other: dict[str, Any]) -> float:
    signal, noise = map(math.fsum, zip(*_squares(source, other), strict=True))
    return 10 * math.log10(signal / noise) if noise else math.inf


def _squares(source: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[float, float]]:
    for name, weight in source.items():
        exact = weight.double()
        yield float(exact.square().sum()), float((other[name].double() - exact).square().sum())
