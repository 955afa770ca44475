"""transformers loads an output like the same weights decoded by hand: nothing missing, logits equal to the bit."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schemegen
from schemegen.kernels.cpu import decode_int

Tensors = dict[str, Any]


def decoded(output: Path, folder: Path) -> Path:
    """The output with its experts decoded to BF16, stored one by one, and no quantization_config."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    stored: Tensors = {}
    for shard in output.glob("*.safetensors"):
        stored |= load_file(shard)
    plain = {name: tensor for name, tensor in stored.items() if ".weight_" not in name}
    for name, packed in stored.items():
        if name.endswith(".weight_packed"):
            module = name.removesuffix("_packed")
            scale = stored[f"{module}_scale"].view(torch.int16).numpy().view(np.uint16)
            weight = np.empty((len(packed), packed.shape[1] * 8), np.uint16)
            decode_int(packed.numpy().view(np.uint32), "BF16", 4, 32, scale, weight)
            plain[module] = torch.from_numpy(weight.view(np.int16)).view(torch.bfloat16)
    folder.mkdir()
    save_file(plain, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((output / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The model in BF16, and what loading has to say about its keys."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, told = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.bfloat16, output_loading_info=True
        )
    return model.eval(), told


@pytest.mark.parametrize("policies", [[], ["keep-mtp"]], ids=["mtp quantized", "mtp kept"])
def test_logits_equal_those_of_the_decoded_checkpoint(sample_folder: Path, tmp_path: Path, policies: list[str]) -> None:
    pytest.importorskip("compressed_tensors")
    torch = pytest.importorskip("torch")
    output = schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out", policies=policies).path
    ours, told = loaded(output)
    plain, _ = loaded(decoded(output, tmp_path / "plain"))
    assert not told["missing_keys"]
    assert not [key for key in told["unexpected_keys"] if not key.startswith("mtp.")]
    tokens = torch.arange(1, 200).reshape(1, -1)
    with torch.no_grad():
        assert torch.equal(ours(input_ids=tokens).logits, plain(input_ids=tokens).logits)
