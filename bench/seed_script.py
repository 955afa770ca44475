"""The reference side: llm-compressor's `model_free_ptq` with Kimi's INT4 scheme, on a local folder and the CPU.

    python seed_script.py SOURCE OUTPUT

Runs in an environment of its own that has llmcompressor 0.14.0.1, so it imports nothing from this project.
"""

from __future__ import annotations

import os
import sys


def quantize(source: str, output: str) -> None:
    """Quantize the routed experts of `source` into `output` (casperhansen/Qwen3.6-35B-A3B-INT4-RTN, Reproduction)."""
    from compressed_tensors.config import CompressionFormat
    from compressed_tensors.quantization import (
        QuantizationArgs,
        QuantizationScheme,
        QuantizationStrategy,
        QuantizationType,
    )
    from llmcompressor import model_free_ptq

    weights = QuantizationArgs(
        num_bits=4,
        type=QuantizationType.INT,
        strategy=QuantizationStrategy.GROUP,
        group_size=32,
        symmetric=True,
        observer="minmax",
        dynamic=False,
    )
    scheme = QuantizationScheme(
        targets=[r"re:.*mlp\.experts\.\d+\.(gate_proj|up_proj|down_proj)$"],
        weights=weights,
        format=CompressionFormat.pack_quantized.value,
    )
    model_free_ptq(model_stub=source, save_directory=output, scheme=scheme, max_workers=8, device="cpu")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    quantize(*sys.argv[1:])
