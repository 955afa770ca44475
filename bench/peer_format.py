"""llm-compressor's model_free_ptq on routed experts: `python peer_format.py MODEL OUTPUT WORDS`.

WORDS are a QuantizationScheme's keywords as JSON. All other modules keep their weights. Nothing of schemegen is
imported.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def save_contiguous(tensors: dict[str, Any], path: str) -> None:
    """Its blocks come out strided, which safetensors does not take."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def main(model: str, output: str, words: str) -> None:
    """Quantize with as many threads as its own examples."""
    from compressed_tensors.quantization import QuantizationScheme
    from llmcompressor import model_free_ptq
    from llmcompressor.entrypoints import model_free

    told = json.loads(words)
    if told["weights"]["strategy"] == "block":
        model_free.save_file = save_contiguous
    targets = [r"re:.*mlp\.experts\.\d+\.(gate_proj|up_proj|down_proj)$"]
    scheme = QuantizationScheme(targets=targets, **told)
    model_free_ptq(model_stub=model, save_directory=output, scheme=scheme, max_workers=8, device="cpu")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    main(*sys.argv[1:])
