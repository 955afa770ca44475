"""Codecs that search scales: `mse` against llm-compressor, `signed_mse` and its negative scales, wherever computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.codecs.base import Codec
from schemegen.codecs.searched_int import MseInt, SignedMseInt
from schemegen.scheme import Format

Array = npt.NDArray[Any]
Formats = Callable[..., Format]
Buffers = Callable[[Format, str, tuple[int, int, int]], dict[str, Array]]
Weights = Callable[..., Array]

DTYPES = ("BF16", "F16", "F32")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
#: Matrices at which the search ends early, and others: rows and columns.
SHAPES = ((1, 64), (3, 256), (64, 128))
SEARCHES: list[dict[str, Any]] = [
    {"num_bits": 4, "group_size": 32},
    {"num_bits": 8, "group_size": 32},
    {"num_bits": 4, "group_size": None, "strategy": "channel"},
    {"num_bits": 3, "group_size": 64},
]


def encoded(codec: Codec, out: dict[str, Array], weights: Array, dtype: str, device: str = "cpu") -> dict[str, Array]:
    assert codec.encode(weights, dtype, out, device=device) == -1
    return out


@pytest.fixture(scope="module")
def torch_dtypes() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    return {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


@every_dtype
@pytest.mark.parametrize("fields", SEARCHES, ids=str)
def test_mse_is_model_free_ptqs(
    dtype: str,
    fields: dict[str, Any],
    tmp_path: Path,
    torch_dtypes: dict[str, Any],
    format_of: Formats,
    buffers: Buffers,
    random_weights: Weights,
) -> None:
    weights = [random_weights(dtype, (1, *shape), seed) for seed, shape in enumerate(SHAPES)]
    theirs = quantized_by_peer(tmp_path, weights, torch_dtypes[dtype], fields)
    format = format_of(**fields, observer="mse")
    for number, (matrix, shape) in enumerate(zip(weights, SHAPES, strict=True)):
        ours = encoded(MseInt(format), buffers(format, dtype, (1, *shape)), matrix, dtype)
        for suffix, made in ours.items():
            expected = theirs[f"layers.{number}.o_proj.{suffix}"]
            np.testing.assert_array_equal(made[0], expected.view(f"u{expected.itemsize}"))
        assert MseInt(format).recode(matrix, dtype, ours) is None


def quantized_by_peer(folder: Path, weights: list[Array], dtype: Any, fields: dict[str, Any]) -> dict[str, Array]:
    """What llm-compressor stores of such a checkpoint; bits as signed integers."""
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("llmcompressor")
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
    from safetensors.torch import load_file, save_file

    (folder / "source").mkdir()
    tensors = {
        f"layers.{number}.o_proj.weight": torch.from_numpy(bits[0].view(f"i{bits.itemsize}")).view(dtype)
        for number, bits in enumerate(weights)
    }
    save_file(tensors, folder / "source" / "model.safetensors", {"format": "pt"})
    (folder / "source" / "config.json").write_text(json.dumps({"model_type": "llama"}))
    args = QuantizationArgs(**{"strategy": "group", **fields, "observer": "memoryless_mse"})
    config = QuantizationConfig(config_groups={"g": QuantizationScheme(targets=["Linear"], weights=args)}, ignore=[])
    peer.model_free_ptq(str(folder / "source"), str(folder / "made"), config=config, device="cpu")
    made = load_file(folder / "made" / "model.safetensors")
    signed = {2: torch.int16, 4: torch.int32}
    return {
        name: tensor.view(signed[tensor.element_size()]).numpy()
        for name, tensor in made.items()
        if not name.endswith("weight_shape")
    }


@pytest.mark.parametrize("codec", [MseInt, SignedMseInt])
@pytest.mark.parametrize("num_bits", [4, 8])
def test_bits_depend_on_neither_device_nor_batch(
    codec: type[Codec], num_bits: int, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    pytest.importorskip("torch")
    format = format_of(num_bits=num_bits, observer="mse" if codec is MseInt else "signed_mse")
    weights = random_weights("BF16", (3, 8, 64))
    fused = encoded(codec(format), buffers(format, "BF16", (3, 8, 64)), weights, "BF16")
    in_torch = encoded(codec(format), buffers(format, "BF16", (3, 8, 64)), weights, "BF16", "torch:cpu")
    for number in range(3):
        alone = encoded(codec(format), buffers(format, "BF16", (1, 8, 64)), weights[number : number + 1], "BF16")
        for suffix in fused:
            np.testing.assert_array_equal(in_torch[suffix][number], fused[suffix][number])
            np.testing.assert_array_equal(alone[suffix][0], fused[suffix][number])


@every_dtype
@pytest.mark.parametrize("num_bits", range(2, 9))
def test_negative_scales_are_confirmed_and_decode_as_compressed_tensors(
    dtype: str,
    num_bits: int,
    torch_dtypes: dict[str, Any],
    format_of: Formats,
    buffers: Buffers,
    random_weights: Weights,
) -> None:
    torch = pytest.importorskip("torch")
    format, weights = format_of(num_bits=num_bits, observer="signed_mse"), random_weights(dtype, (1, 12, 96))
    weights[0, 3] = 0
    codec = SignedMseInt(format)
    stored = encoded(codec, buffers(format, dtype, (1, 12, 96)), weights, dtype)
    assert (stored["weight_scale"] >> (8 * weights.itemsize - 1)).any()
    assert codec.recode(weights, dtype, stored) is None
    restored = np.empty_like(weights)
    codec.decode(stored, dtype, restored)
    expected = decompressed(stored, num_bits, torch_dtypes[dtype])
    assert torch.equal(expected.view(torch.int16), torch.from_numpy(restored[0].view(np.int16)))


def decompressed(stored: dict[str, Array], num_bits: int, dtype: Any) -> Any:
    """The weights that compressed-tensors restores, [rows, columns]."""
    torch = pytest.importorskip("torch")
    registry = pytest.importorskip("compressed_tensors.compressors").BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    args = QuantizationArgs(num_bits=num_bits, strategy="group", group_size=32)
    words, scales = (stored[suffix][0] for suffix in ("weight_packed", "weight_scale"))
    given = {
        "weight_packed": torch.from_numpy(words.view(np.int32)),
        "weight_scale": torch.from_numpy(scales.view(f"i{scales.itemsize}")).view(dtype),
        "weight_shape": torch.tensor([len(words), words.shape[1] * 32 // num_bits]),
    }
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    return registry.load_from_registry("pack-quantized").decompress(given, scheme)["weight"]


def test_recode_finds_a_scale_of_zero_and_a_changed_code(
    format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    format, weights = format_of(observer="signed_mse"), random_weights("BF16", (2, 4, 64))
    stored = encoded(SignedMseInt(format), buffers(format, "BF16", (2, 4, 64)), weights, "BF16")
    stored["weight_packed"][1, 2, 3] ^= 1
    wrong = SignedMseInt(format).recode(weights, "BF16", stored)
    assert wrong is not None
    assert (wrong.suffix, wrong.place) == ("weight_packed", (1, 2, 24))
    stored["weight_scale"][0, 3, 1] = 0x8000
    wrong = SignedMseInt(format).recode(weights, "BF16", stored)
    assert wrong is not None
    assert (wrong.suffix, wrong.place) == ("weight_scale", (0, 3, 1))


@pytest.mark.parametrize("codec", [MseInt, SignedMseInt])
def test_the_first_weight_that_is_not_finite_is_named(
    codec: type[Codec], format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    format, weights = format_of(observer="mse"), random_weights("BF16", (2, 4, 64))
    weights[1, 2, 3] = weights[1, 3, 0] = 0x7F80
    assert codec(format).encode(weights, "BF16", buffers(format, "BF16", (2, 4, 64))) == 4 * 64 + 2 * 64 + 3


def test_torch_is_needed_where_no_kernel_is(format_of: Formats) -> None:
    assert not MseInt(format_of()).needs_torch("BF16", 1024)
    assert MseInt(format_of()).needs_torch("F16", 1024)
    assert MseInt(format_of(strategy="channel", group_size=None)).needs_torch("BF16", 4096)
    assert not SignedMseInt(format_of()).needs_torch("F16", 1024)
    assert not SignedMseInt(format_of(strategy="channel", group_size=None)).needs_torch("BF16", 4096)
    assert SignedMseInt(format_of(num_bits=3)).needs_torch()
