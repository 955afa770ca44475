"""FP8 in all its shapes: fused kernels, torch and llm-compressor's own steps give the same bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.codecs import Codec, Stored, codec_of
from schemegen.errors import UnsupportedError
from schemegen.kernels import native
from schemegen.scheme import Format

Array = npt.NDArray[Any]
Peer = Callable[[Array, str, dict[str, Any], str], tuple[Array, Array, Array]]

DTYPES = {"BF16": (0x7F80, 7), "F16": (0x7C00, 10), "F32": (0x7F800000, 23)}
KINDS: dict[str, dict[str, Any]] = {
    "channel": {"strategy": "channel"},
    "tensor": {"strategy": "tensor"},
    "block": {"strategy": "block", "block_structure": [128, 128]},
    "small block": {"strategy": "block", "block_structure": [6, 40]},
    "mx": {"strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
}
DYNAMIC = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "observer": None}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_kind = pytest.mark.parametrize("kind", KINDS)


def codec(kind: str, observer: str = "minmax") -> Codec:
    weights = {"num_bits": 8, "type": "float", "observer": observer, **KINDS[kind]}
    return codec_of(Format.model_validate({"weights": weights, "input_activations": DYNAMIC}))


def magnitudes(weights: Array, dtype: str) -> Array:
    """The largest magnitude of each matrix, F32."""
    wide = weights.astype(np.uint32) << 16 if dtype == "BF16" else weights
    values = wide.view({"BF16": np.float32, "F16": np.float16, "F32": np.float32}[dtype])
    return np.asarray(np.abs(values).max((1, 2)).astype(np.float32))


def encoded(made: Codec, weights: Array, dtype: str, device: str = "cpu") -> dict[str, Array]:
    """What the codec stores, in buffers that held something else before."""
    matrices, rows, cols = weights.shape
    height, width = made.weights.block_structure or (1, made.weights.group_size or cols)
    cells = (1,) if made.weights.strategy == "tensor" else (-(-rows // height), -(-cols // width))
    scale = np.uint8 if made.weights.group_size else weights.dtype
    out = {"weight": np.full(weights.shape, 0x55, np.uint8), "weight_scale": np.full((matrices, *cells), 0x55, scale)}
    assert made.encode(weights, dtype, out, magnitudes(weights, dtype), device) == -1
    return out


def finite_weights(dtype: str, shape: tuple[int, int, int], seed: int) -> Array:
    """Rows of all sizes with zeros, subnormals and extremes among them; whole rows and columns of zeros."""
    infinity, mantissa = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    uint = np.uint32 if dtype == "F32" else np.uint16
    exponents = rng.integers(0, (infinity >> mantissa) - 2, (*shape[:2], 1))
    fields = np.maximum(exponents - rng.geometric(0.3, shape) + 1, 0)
    bits = (fields << mantissa | rng.integers(0, 1 << mantissa, shape)).astype(uint)
    step = 1 << mantissa
    # As near to the largest as MX scales of the dtype go.
    specials = np.array([0, 1, 2, step - 1, step, step + 1, infinity - (step >> 2) - 1], uint)
    bits = np.where(rng.random(shape) < rng.choice([0, 0, 0.02, 1], (*shape[:2], 1)), rng.choice(specials, shape), bits)
    bits[rng.random(shape[:2]) < 0.1] = 0
    bits[:, :, rng.random(shape[2]) < 0.1] = 0
    return np.ascontiguousarray(bits | rng.choice(np.array([0, 1 << bits.itemsize * 8 - 1], uint), shape))


@pytest.fixture(scope="module")
def peer() -> Peer:
    """llm-compressor's steps for one matrix, as model_free_ptq takes them → codes, scales, weights restored, bits."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lifecycle = pytest.importorskip("llmcompressor.entrypoints.model_free.lifecycle")
        quantization = pytest.importorskip("compressed_tensors.quantization")
        compressors = pytest.importorskip("compressed_tensors.compressors")

    def bits(tensor: Any) -> Array:
        tensor = tensor.detach().contiguous()
        signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.itemsize]
        return np.asarray(tensor.view(signed).numpy().view(f"u{tensor.itemsize}"))

    def run(raw: Array, dtype: str, kind: dict[str, Any], observer: str = "minmax") -> tuple[Array, Array, Array]:
        form = "mxfp8-quantized" if "group_size" in kind else "float-quantized"
        args = quantization.QuantizationArgs(num_bits=8, type="float", observer=f"memoryless_{observer}", **kind)
        scheme = quantization.QuantizationScheme(
            targets=["Linear"],
            weights=args,
            input_activations=quantization.QuantizationArgs(**DYNAMIC),
            format=form,
        )
        kinds = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
        weight = torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(kinds[dtype])
        module = lifecycle.initialize_quantized_linear(weight, scheme, "cpu")
        lifecycle.calibrate_weight(module)
        compressor = compressors.BaseCompressor.load_from_registry(form)
        made = compressor.compress(dict(module.state_dict()), scheme)
        restored = compressor.decompress(dict(made), scheme)["weight"].to(kinds[dtype])
        return bits(made["weight"]), bits(made["weight_scale"]), bits(restored)

    return run


def assert_equal(stored: Stored, expected: tuple[Array, Array, Array], matrix: int = 0) -> None:
    np.testing.assert_array_equal(stored["weight_scale"][matrix], expected[1])
    np.testing.assert_array_equal(stored["weight"][matrix], expected[0])


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_bits_equal_those_of_torch_and_of_compressed_tensors(data: st.DataObject, peer: Peer) -> None:
    kind, dtype = data.draw(st.sampled_from(sorted(KINDS))), data.draw(st.sampled_from(sorted(DTYPES)))
    matrices, rows = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 150))
    cols = 32 * data.draw(st.integers(1, 6)) if kind == "mx" else data.draw(st.integers(1, 150))
    weights = finite_weights(dtype, (matrices, rows, cols), data.draw(st.integers(0, 2**32)))
    made = codec(kind)
    stored = encoded(made, weights, dtype)
    for name, items in encoded(made, weights, dtype, "torch:cpu").items():
        np.testing.assert_array_equal(items, stored[name])
    restored = np.empty_like(weights)
    made.decode(stored, dtype, restored)
    for matrix in range(matrices):
        expected = peer(weights[matrix], dtype, KINDS[kind], "minmax")
        assert_equal(stored, expected, matrix)
        np.testing.assert_array_equal(restored[matrix], expected[2])
    assert made.recode(weights, dtype, stored) is None


@every_dtype
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"tensor"}))
@pytest.mark.parametrize("shape", [(128, 256), (60, 160), (3, 96)], ids=str)
def test_a_search_finds_the_ranges_of_memoryless_mse(dtype: str, kind: str, shape: tuple[int, int], peer: Peer) -> None:
    made = codec(kind, "mse")
    weights = finite_weights(dtype, (2, *shape), 5)
    normal = np.random.default_rng(1).standard_normal(shape).astype(np.float32).view(np.uint32)
    if dtype == "BF16":
        weights[1] = normal >> 16
    elif dtype == "F32":
        weights[1] = normal
    else:
        weights[1] = normal.view(np.float32).astype(np.float16).view(np.uint16)
    stored = encoded(made, weights, dtype)
    for matrix in range(2):
        assert_equal(stored, peer(weights[matrix], dtype, KINDS[kind], "mse"), matrix)
    assert made.recode(weights, dtype, stored) is None


@every_dtype
@every_kind
@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_blocks_of_rows_hold_what_the_whole_holds(dtype: str, kind: str, device: str) -> None:
    if device != "cpu":
        pytest.importorskip("torch")
    made, step = codec(kind), {"block": 128, "small block": 6}.get(kind, 5)
    weights = finite_weights(dtype, (1, 300, 160), 7)
    whole, tops = encoded(made, weights, dtype), magnitudes(weights, dtype)
    height = step if "block" in kind else 1
    for first in range(0, 300, 2 * step):
        rows = weights[:, first : first + 2 * step]
        scales = whole["weight_scale"][:, first // height :][:, : -(-rows.shape[1] // height)]
        out = {"weight": np.empty(rows.shape, np.uint8), "weight_scale": np.zeros_like(scales)}
        if kind == "tensor" and first:
            out = {"weight": out["weight"], **({"weight_scale": np.empty((1, 0), weights.dtype)} if first % 20 else {})}
        assert made.encode(rows, dtype, out, tops, device) == -1
        np.testing.assert_array_equal(out["weight"], whole["weight"][:, first : first + 2 * step])
        if kind != "tensor":
            np.testing.assert_array_equal(out["weight_scale"], scales)


@every_kind
def test_an_altered_code_or_scale_is_found_with_its_place(kind: str) -> None:
    made = codec(kind)
    weights = finite_weights("BF16", (2, 140, 160), 3)
    stored = encoded(made, weights, "BF16")
    for place in ((0, 0, 0), (0, 139, 159), (1, 77, 130)):
        changed = {**stored, "weight": stored["weight"].copy()}
        changed["weight"][place] ^= 1
        found = made.recode(weights, "BF16", changed)
        assert found is not None
        assert (found.suffix, found.place) == ("weight", place)
    unusable = [255] if kind == "mx" else [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0]
    for bad in unusable:
        changed = {**stored, "weight_scale": stored["weight_scale"].copy()}
        changed["weight_scale"].flat[-1] = bad
        found = made.recode(weights, "BF16", changed)
        assert found is not None
        assert found.suffix == "weight_scale"
        assert found.place == tuple(length - 1 for length in stored["weight_scale"].shape)


@every_kind
def test_a_scale_that_codes_were_not_made_with_is_found(kind: str) -> None:
    made = codec(kind)
    weights = np.full((1, 140, 160), 0x3F80, np.uint16)
    stored = encoded(made, weights, "BF16")
    # Twice the scale; a step of a mantissa may well leave every code as it is.
    stored["weight_scale"].flat[-1] += 1 if kind == "mx" else 0x80
    found = made.recode(weights, "BF16", stored)
    assert found is not None
    assert found.suffix == "weight"


@every_dtype
@every_kind
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, kind: str) -> None:
    weights = finite_weights(dtype, (2, 140, 160), 4)
    made, tops = codec(kind), magnitudes(weights, dtype)
    stored = encoded(made, weights, dtype)
    weights[1, 3, 150] = weights[1, 4, 2] = DTYPES[dtype][0]
    assert made.encode(weights, dtype, stored, tops) == (140 + 3) * 160 + 150
    assert made.recode(weights, dtype, stored) is not None


@every_kind
def test_warming_up_loads_what_encode_calls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engines: dict[str, Any] = {}
    monkeypatch.setattr(native, "_engines", engines)
    codec(kind).warm_up("BF16", 160)
    loaded = set(engines)
    assert len(loaded) == 1
    encoded(codec(kind), finite_weights("BF16", (1, 8, 160), 1), "BF16")
    assert set(engines) == loaded


def test_only_a_search_needs_torch_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(codec(kind).needs_torch() for kind in KINDS)
    searching = codec("channel", "mse")
    assert searching.needs_torch("BF16", 64)
    monkeypatch.setattr("schemegen.kernels.torch_check.torch_fault", lambda: "is not installed: pip install torch")
    with pytest.raises(UnsupportedError, match="FP8 is computed with torch, which is not installed: pip install torch"):
        encoded(searching, np.zeros((1, 2, 32), np.uint16), "BF16")


def test_one_scale_a_matrix_is_not_guessed_from_a_block_of_rows() -> None:
    out = {"weight": np.empty((1, 2, 32), np.uint8)}
    with pytest.raises(ValueError, match="largest magnitude"):
        codec("tensor").encode(np.zeros((1, 2, 32), np.uint16), "BF16", out)
