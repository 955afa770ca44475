"""Integer codecs against llm-compressor's model_free_ptq on a small checkpoint: names, shapes and bits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.codecs import codec_of
from schemegen.formats import observer_of
from schemegen.scheme import Format

torch = pytest.importorskip("torch")
llmcompressor = pytest.importorskip("llmcompressor")

Array = npt.NDArray[Any]
TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True}
CHANNEL = {"strategy": "channel", "group_size": None}
#: Rows that fill words of zero points, and rows that do not.
SHAPES = {"self_attn.q_proj": (320, 256), "self_attn.k_proj": (60, 256), "self_attn.v_proj": (60, 256)} | {
    "mlp.gate_proj": (203, 256),
    "mlp.up_proj": (203, 256),
    "mlp.down_proj": (256, 384),
}
FORMATS: list[dict[str, Any]] = [
    *({"num_bits": bits, "group_size": 32, "symmetric": False} for bits in (3, 4, 8)),
    *({"num_bits": bits, "group_size": 128, "symmetric": False} for bits in (3, 4, 8)),
    *({"num_bits": bits, **CHANNEL, "symmetric": False} for bits in (3, 4, 8)),
    {"num_bits": 8, **CHANNEL, "input_activations": TOKENS},
    {"num_bits": 8, "strategy": "tensor", "input_activations": TOKENS},
    {"num_bits": 4, "group_size": 32, "symmetric": False, "observer": "mse"},
    {"weights": {"num_bits": 8, **CHANNEL, "observer": "mse"}, "input_activations": TOKENS},
    {"num_bits": 4, "group_size": 128, "input_activations": TOKENS | {"type": "float"}, "storage": "pack-quantized"},
]


@pytest.fixture(scope="module", params=["bfloat16", "float16"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of one layer, with zeros, outliers and subnormals in it."""
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("model")
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, shape in SHAPES.items():
        weight = torch.randn(shape, generator=generator) * 0.05
        weight[3], weight[4, :40], weight[5], weight[7] = 0, 0, weight[5].abs(), -weight[7].abs()
        weight[6, 9], weight[8] = 40.0, weight[8] * 2.0**-21
        tensors[f"model.layers.0.{name}.weight"] = weight.to(getattr(torch, request.param))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return folder


@pytest.mark.parametrize("fields", FORMATS, ids=str)
def test_every_tensor_equals_the_reference(
    fields: dict[str, Any], source: Path, tmp_path: Path, buffers: Callable[..., dict[str, Array]]
) -> None:
    format = Format.model_validate(fields)
    theirs = dict(_reference(format, source, tmp_path / "theirs"))
    for name, weights in _tensors(source / "model.safetensors"):
        dtype = {"bfloat16": "BF16", "float16": "F16"}[str(weights.dtype).removeprefix("torch.")]
        bits = weights.view(torch.int16).numpy().view(np.uint16)[None]
        out, shared = buffers(format, dtype, bits.shape), weights.abs().amax().reshape(1).float().numpy()
        assert codec_of(format).encode(bits, dtype, out, shared) == -1
        module = name.removesuffix(".weight")
        for suffix, items in out.items():
            other = theirs.pop(f"{module}.{suffix}")
            signed = {1: torch.int8, 2: torch.int16, 4: torch.int32}[items.itemsize]
            np.testing.assert_array_equal(items[0], other.view(signed).numpy().view(items.dtype), err_msg=suffix)
        assert codec_of(format).recode(bits, dtype, out) is None
    assert {name.rpartition(".")[2] for name in theirs} <= {"weight_shape"}


def _reference(format: Format, source: Path, output: Path) -> Iterator[tuple[str, Any]]:
    """The tensors that model_free_ptq writes."""
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme

    def args(given: Any, **more: Any) -> Any:
        return QuantizationArgs(**given.model_dump(exclude={"narrow_range"}, exclude_unset=True) | more)

    activations = format.input_activations
    scheme = QuantizationScheme(
        targets=["re:.*_proj$"],
        weights=args(format.weights, observer=f"memoryless_{observer_of(format.weights)}"),
        input_activations=None if activations is None else args(activations, observer=None),
        format=format.storage,
    )
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=[])
    llmcompressor.model_free_ptq(str(source), str(output), config=config, device="cpu")
    return _tensors(output / "model.safetensors")


def _tensors(path: Path) -> Iterator[tuple[str, Any]]:
    from safetensors.torch import load_file

    return iter(load_file(path).items())
